-- Deletes jobs that are done. ?1 is the JSON array of the ids of jobs that worker ?3 holds with fence ?2.
-- Returns the ids of the jobs that the worker does hold.
-- Index: errand_jobs_running.
DELETE FROM errand_jobs INDEXED BY errand_jobs_running
WHERE id IN (SELECT value FROM json_each(?1))
    AND fence = ?2
    AND locked_by = ?3
    AND status = 'running'
RETURNING id;
