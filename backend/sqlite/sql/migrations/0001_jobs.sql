-- The jobs table, and what belongs to it. In these files tables and indexes begin with errand_; Options.Prefix takes
-- its place. Times are whole microseconds since 1970 by the host's clock.

-- Ids are never used twice (AUTOINCREMENT), and drawn in the order in which transactions commit.
-- The columns that change come first and the long ones last, so that counting and claiming read the pages of a
-- long payload only when they must.
CREATE TABLE errand_jobs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT NOT NULL DEFAULT 'default' CHECK (length(queue) BETWEEN 1 AND 200),
    -- pending, running, completed, dead, held or cancelled; a CHECK would slow claims by a quarter
    status       TEXT NOT NULL DEFAULT 'pending',
    priority     INTEGER NOT NULL DEFAULT 0,
    scheduled_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    attempts     INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 5,
    fence        INTEGER NOT NULL DEFAULT 0, -- 0 unless a claim has drawn one
    locked_at    INTEGER,
    locked_until INTEGER,                    -- when the lease expires
    locked_by    TEXT,
    created_at   INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    updated_at   INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    kind         TEXT NOT NULL DEFAULT 'default' CHECK (length(kind) BETWEEN 1 AND 200),
    job_key      TEXT,
    job_group    TEXT,                       -- what it shares with other jobs of its queue; NULL for none
    cost         INTEGER,                    -- what it takes of a rate; NULL for 1
    started_at   INTEGER,                    -- when this run was claimed; of an ended job, the last one
    finished_at  INTEGER,                    -- when the job was completed, dead or cancelled
    cancel_at    INTEGER,                    -- when somebody asked for the job to be cancelled
    redriven_at  INTEGER,                    -- the last time
    redrives     INTEGER,                    -- how often; NULL for never
    last_error   TEXT,
    history      TEXT,                       -- the last failures (queue.Failure), a JSON array; NULL until the first
    headers      TEXT,                       -- a JSON object of strings, or NULL
    payload      TEXT NOT NULL DEFAULT 'null'
) STRICT;

-- Where the ids begin. A sleeping worker also reads this row, to learn that jobs have been written.
INSERT INTO sqlite_sequence (name, seq) VALUES ('errand_jobs', 0);

-- Each claim draws its fence here.
CREATE TABLE errand_fences (
    last    INTEGER NOT NULL,
    cancels INTEGER NOT NULL, -- how many requests to cancel running jobs there were; workers learn of others' by it
    rules   INTEGER NOT NULL  -- the version of the rules, which every change counts up
) STRICT;
INSERT INTO errand_fences (last, cancels, rules) VALUES (0, 0, 0);

-- Serves the claim. The id, with which every index ends, puts ties in insertion order without a sort.
CREATE INDEX errand_jobs_pending ON errand_jobs (queue, priority, scheduled_at) WHERE status = 'pending';
-- Serves settling and the extension of leases, which name jobs by their ids, and the reclaim, which reads all
-- running jobs: they are never many. A statement can insist on an index only. With the statistics of a table that
-- was short when it was analyzed, SQLite would read the whole table instead of looking the ids up.
CREATE INDEX errand_jobs_running ON errand_jobs (id) WHERE status = 'running';
-- Serve Redrive, the lists, newest first, and the counts.
CREATE INDEX errand_jobs_dead ON errand_jobs (id) WHERE status = 'dead';
CREATE INDEX errand_jobs_held ON errand_jobs (id) WHERE status = 'held';
CREATE INDEX errand_jobs_cancelled ON errand_jobs (id) WHERE status = 'cancelled';
-- Allows one live job a key.
CREATE UNIQUE INDEX errand_jobs_key ON errand_jobs (queue, job_key)
    WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held');
-- Serves turns of groups. Ordered jobs have an index of their own.
CREATE INDEX errand_jobs_group ON errand_jobs (queue, job_group, priority, scheduled_at)
    WHERE job_group IS NOT NULL AND priority < 2147483647 AND status = 'pending';
-- Ordered jobs: of each group one job at a time, in the order of ids. They have a group, and the priority 2147483647,
-- which no other job has. Serves claims, which look for the first job of each group.
CREATE INDEX errand_jobs_ordered ON errand_jobs (queue, job_group)
    WHERE priority = 2147483647 AND job_group IS NOT NULL AND status IN ('pending', 'held');
-- Allows one running job a group.
CREATE UNIQUE INDEX errand_jobs_ordered_one ON errand_jobs (queue, job_group)
    WHERE priority = 2147483647 AND job_group IS NOT NULL AND status = 'running';

-- Holds removed jobs if Options.Retention.Archive is set.
CREATE TABLE errand_jobs_archive (
    id           INTEGER PRIMARY KEY,
    queue        TEXT NOT NULL,
    status       TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    scheduled_at INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    fence        INTEGER NOT NULL,
    locked_at    INTEGER,
    locked_until INTEGER,
    locked_by    TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    job_key      TEXT,
    job_group    TEXT,
    cost         INTEGER,
    started_at   INTEGER,
    finished_at  INTEGER,
    cancel_at    INTEGER,
    redriven_at  INTEGER,
    redrives     INTEGER,
    last_error   TEXT,
    history      TEXT,
    headers      TEXT,
    payload      TEXT NOT NULL
) STRICT;

-- The output and the progress of jobs that have one. Prune removes the rows of jobs that it removes, and those whose
-- jobs are not in the table any more.
CREATE TABLE errand_results (
    job_id      INTEGER PRIMARY KEY,
    output      TEXT,
    progress    TEXT,
    progress_at INTEGER
) STRICT;
