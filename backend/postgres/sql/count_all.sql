-- Counts every job.
SELECT queue, status::text, count(*), true
FROM errand.jobs
GROUP BY queue, status
ORDER BY queue, status;
