-- Finds at most ?4 due jobs of queue ?1, group ?6 and priority ?2 at ?3, behind the due time ?7 and id ?8. The rest is
-- as in due.sql.
-- Index: errand_jobs_group.
SELECT
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, job_group
FROM errand_jobs INDEXED BY errand_jobs_group
WHERE queue = ?1
    AND job_group = ?6
    AND job_group IS NOT NULL
    AND priority < 2147483647
    AND status = 'pending'
    AND priority = ?2
    AND scheduled_at <= ?3
    AND (scheduled_at, id) > (?7, ?8)
    AND (?5 IS NULL OR kind IN (SELECT value FROM json_each(?5)))
ORDER BY scheduled_at, id
LIMIT ?4 + 0;
