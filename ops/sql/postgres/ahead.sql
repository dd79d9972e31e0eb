-- How many due jobs of the queue of job $1 come before it, 1,001 at most.
-- Index: jobs_pending_idx.
SELECT count(*)
FROM (
    SELECT FROM errand.jobs a, (SELECT queue, priority, scheduled_at, id FROM errand.jobs WHERE id = $1::bigint) AS t
    WHERE a.status = 'pending' AND a.queue = t.queue
        AND (a.priority, a.scheduled_at, a.id) < (t.priority, t.scheduled_at, t.id)
        AND a.scheduled_at <= statement_timestamp()
    LIMIT 1001
) AS s
