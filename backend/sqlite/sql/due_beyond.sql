-- Finds due jobs of queue ?1 that are less urgent than ?2; the rest is as in due.sql. It leaves out ordered jobs, and
-- also reads jobs that are not yet due. It serves queues with too many priorities to run due.sql for each.
-- Index: errand_jobs_pending.
SELECT
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, job_group
FROM errand_jobs INDEXED BY errand_jobs_pending
WHERE queue = ?1
    AND status = 'pending'
    AND priority > ?2
    AND priority <> 2147483647
    AND scheduled_at <= ?3
    AND (?5 IS NULL OR kind IN (SELECT value FROM json_each(?5)))
ORDER BY priority, scheduled_at, id
LIMIT ?4 + 0;
