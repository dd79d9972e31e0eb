-- Returns the most urgent priority in use of queue ?1 and group ?2 that is less urgent than ?3, or NULL.
-- Index: errand_jobs_group.
SELECT min(priority)
FROM errand_jobs INDEXED BY errand_jobs_group
WHERE queue = ?1 AND job_group = ?2 AND job_group IS NOT NULL AND priority < 2147483647 AND status = 'pending' AND priority > ?3;
