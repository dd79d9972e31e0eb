-- Returns the jobs that the workers in the JSON array ?1 hold, or all workers if it is NULL: at most ?2 of each worker,
-- the ones that were claimed first. When a run began is as in sqlkit.RunTimes. It reads all running jobs.
-- Index: errand_jobs_running.
SELECT worker, id, queue, kind, attempts, since
FROM (
    SELECT r.*, row_number() OVER (PARTITION BY worker ORDER BY since, id) AS place
    FROM (
        SELECT
            coalesce(locked_by, '') AS worker, id, queue, kind, attempts,
            iif(locked_until > locked_at AND started_at IS NOT NULL, started_at, updated_at) AS since
        FROM errand_jobs INDEXED BY errand_jobs_running
        WHERE status = 'running' AND (?1 IS NULL OR locked_by IN (SELECT value FROM json_each(?1)))
    ) AS r
) AS p
WHERE place <= ?2
ORDER BY worker, since, id;
