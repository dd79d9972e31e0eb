-- Returns the status, the last error, the output and the progress of the job with id ?1.
-- Index: the ids are the tables' own order.
SELECT j.id, j.status, j.last_error, r.output, r.progress, r.progress_at
FROM errand_jobs AS j
LEFT JOIN errand_results AS r ON r.job_id = j.id
WHERE j.id = ?1;
