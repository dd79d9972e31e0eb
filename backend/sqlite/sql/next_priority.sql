-- Returns the most urgent priority in use of queue ?1 that is less urgent than ?2, or NULL.
-- Index: errand_jobs_pending.
SELECT min(priority)
FROM errand_jobs INDEXED BY errand_jobs_pending
WHERE queue = ?1 AND status = 'pending' AND priority > ?2;
