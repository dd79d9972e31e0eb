-- The rules of limited queues; job_group is '' for the rule of the queue itself. See queue.Rule.
CREATE TABLE errand_rules (
    queue     TEXT NOT NULL,
    job_group TEXT NOT NULL,
    paused    INTEGER NOT NULL,
    running   INTEGER NOT NULL, -- 0 for any number
    per_group INTEGER NOT NULL, -- 0 for any number, or for the queue's; -1 for any number
    share     INTEGER NOT NULL, -- 0 for 1, or for the queue's
    PRIMARY KEY (queue, job_group)
) STRICT, WITHOUT ROWID;

-- The version of the rules, which every change counts up. A claim reads it where it draws its fence.
ALTER TABLE errand_fences ADD COLUMN rules INTEGER NOT NULL DEFAULT 0;

-- For turns of groups. Ordered jobs have an index of their own.
DROP INDEX errand_jobs_group;
CREATE INDEX errand_jobs_group ON errand_jobs (queue, job_group, priority, scheduled_at)
    WHERE job_group IS NOT NULL AND priority < 2147483647 AND status = 'pending';
