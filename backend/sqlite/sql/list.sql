-- Lists jobs, newest first: ?1 queue, ?2 kind, ?3 key, ?4 status, each NULL for any, with ids below ?5, at most ?6.
-- Index: the ids are the table's own order.
SELECT
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, queue,
    fence, locked_by, status, locked_at, locked_until, updated_at
FROM errand_jobs NOT INDEXED
WHERE (?1 IS NULL OR queue = ?1)
    AND (?2 IS NULL OR kind = ?2)
    AND (?3 IS NULL OR job_key = ?3)
    AND (?4 IS NULL OR status = ?4)
    AND id < ?5
ORDER BY id DESC
LIMIT ?6 + 0;
