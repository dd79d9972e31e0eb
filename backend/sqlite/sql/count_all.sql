-- Counts every job.
-- Index: none.
SELECT queue, status, count(*)
FROM errand_jobs
GROUP BY queue, status;
