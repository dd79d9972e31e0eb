-- Lists at most ?2 jobs whose leases have expired at ?1.
-- Index: errand_jobs_running.
SELECT id
FROM errand_jobs INDEXED BY errand_jobs_running
WHERE status = 'running' AND locked_until < ?1
LIMIT ?2 + 0;
