-- Returns the job with id ?1.
-- Index: the ids are the table's own order.
SELECT
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, job_group, queue,
    fence, locked_by, status, locked_at, locked_until, updated_at, started_at, finished_at, redriven_at,
    coalesce(redrives, 0), cancel_at, history, coalesce(cost, 0)
FROM errand_jobs
WHERE id = ?1;
