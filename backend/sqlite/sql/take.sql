-- Gives a worker the jobs with the ids in the JSON array ?1, which the same transaction has found pending. ?2 is the
-- fence, ?3 now, ?4 the end of the lease, ?5 the worker. The statement finds the rows by all columns of an index,
-- because INDEXED BY can only force an index, and not the table's own order: see errand_jobs_running in
-- migrations/0001_jobs.sql. It updates rows in place, so no INSERT trigger of the application fires.
-- Index: errand_jobs_pending.
UPDATE errand_jobs INDEXED BY errand_jobs_pending
SET
    status = 'running',
    attempts = min(attempts, 2147483646) + 1, -- more than an integer holds would be a REAL, which the column refuses
    fence = ?2,
    locked_at = ?3,
    locked_until = ?4,
    locked_by = ?5,
    updated_at = ?3,
    started_at = ?3,
    finished_at = NULL
WHERE status = 'pending'
    AND (queue, priority, scheduled_at, id) IN (
        SELECT j.queue, j.priority, j.scheduled_at, j.id
        FROM json_each(?1) AS v
        CROSS JOIN errand_jobs AS j NOT INDEXED
        WHERE j.id = v.value);
