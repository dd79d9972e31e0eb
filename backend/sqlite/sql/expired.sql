-- Says whether a lease has run out at ?1.
-- Index: errand_jobs_running.
SELECT 1
FROM errand_jobs INDEXED BY errand_jobs_running
WHERE status = 'running' AND locked_until < ?1
LIMIT 1;
