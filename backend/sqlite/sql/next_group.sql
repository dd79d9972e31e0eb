-- Returns the first group of queue ?1 behind ?2, by name, that has pending jobs, or NULL.
-- Index: errand_jobs_group.
SELECT min(job_group)
FROM errand_jobs INDEXED BY errand_jobs_group
WHERE queue = ?1 AND job_group > ?2 AND job_group IS NOT NULL AND priority < 2147483647 AND status = 'pending';
