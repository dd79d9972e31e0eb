-- Copies jobs that are over to the archive, before prune.sql: the parameters are the same.
-- Index: the ids are the table's own order.
INSERT INTO errand_jobs_archive
SELECT
    id, queue, status, priority, scheduled_at, attempts, max_attempts, fence, locked_at, locked_until, locked_by,
    created_at, updated_at, kind, job_key, last_error, headers, payload
FROM errand_jobs
WHERE id IN (SELECT value FROM json_each(?1))
    AND (status = 'completed' AND updated_at <= ?2 OR +status = 'dead' AND updated_at <= ?3);
