-- Lists the jobs of the ?2 results that follow id ?1 that are not in the table.
-- Index: the ids are the tables' own order.
SELECT job_id
FROM (SELECT job_id FROM errand_results WHERE job_id > ?1 ORDER BY job_id LIMIT ?2 + 0) AS r
WHERE NOT EXISTS (SELECT 1 FROM errand_jobs AS j NOT INDEXED WHERE j.id = r.job_id);
