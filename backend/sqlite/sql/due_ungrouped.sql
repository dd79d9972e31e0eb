-- Finds at most ?4 due jobs of queue ?1 and priority ?2 at ?3 that have no group, among the first thousand due jobs
-- behind the due time ?6 and id ?7. They have no index of their own. The rest is as in due.sql.
-- Index: errand_jobs_pending.
SELECT
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, job_group
FROM (
    SELECT
        id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error,
        job_group
    FROM errand_jobs INDEXED BY errand_jobs_pending
    WHERE queue = ?1 AND status = 'pending' AND priority = ?2 AND scheduled_at <= ?3 AND (scheduled_at, id) > (?6, ?7)
    ORDER BY scheduled_at, id
    LIMIT 1000
)
WHERE job_group IS NULL
    AND (?5 IS NULL OR kind IN (SELECT value FROM json_each(?5)))
LIMIT ?4 + 0;
