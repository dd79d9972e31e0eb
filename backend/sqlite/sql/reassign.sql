-- Gives claimed jobs to worker ?4. ?1 is the JSON array of the ids of jobs that worker ?3 holds with fence ?2. Returns
-- the ids of the jobs for which it has done so.
-- Index: errand_jobs_running.
UPDATE errand_jobs INDEXED BY errand_jobs_running
SET locked_by = ?4
WHERE id IN (SELECT value FROM json_each(?1))
    AND fence = ?2
    AND locked_by = ?3
    AND status = 'running'
RETURNING id;
