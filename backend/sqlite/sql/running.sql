-- Counts the running jobs of queue ?1 by group, which is '' for jobs without one. It reads all running jobs: they are
-- never many.
-- Index: errand_jobs_running.
SELECT coalesce(job_group, ''), count(*)
FROM errand_jobs INDEXED BY errand_jobs_running
WHERE status = 'running' AND queue = ?1
GROUP BY coalesce(job_group, '');
