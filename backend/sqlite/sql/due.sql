-- Finds at most ?4 due jobs of queue ?1 and priority ?2 at ?3, in their order, of the kinds in the JSON array ?5, which
-- is NULL for all. Within a priority the jobs that are not yet due come last, and are not read. So the caller runs the
-- statement for each priority. The limit is ?4 + 0, because SQLite would plan a statement with LIMIT ?4 anew for each
-- execution.
-- Index: errand_jobs_pending.
SELECT
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, job_group
FROM errand_jobs INDEXED BY errand_jobs_pending
WHERE queue = ?1
    AND status = 'pending'
    AND priority = ?2
    AND scheduled_at <= ?3
    AND (?5 IS NULL OR kind IN (SELECT value FROM json_each(?5)))
ORDER BY scheduled_at, id
LIMIT ?4 + 0;
