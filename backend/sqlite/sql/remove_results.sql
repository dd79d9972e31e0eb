-- Removes the results of the jobs with the ids in the JSON array ?1 that are not in the table.
-- Index: the ids are the tables' own order.
DELETE FROM errand_results
WHERE job_id IN (SELECT value FROM json_each(?1))
    AND NOT EXISTS (SELECT 1 FROM errand_jobs AS j NOT INDEXED WHERE j.id = job_id);
