-- Records that jobs are done, and keeps them. ?1 is the JSON array of the ids of jobs that worker ?3 holds
-- with fence ?2; ?4 is now. Returns the ids of the jobs that the worker does hold.
-- Index: errand_jobs_running.
UPDATE errand_jobs INDEXED BY errand_jobs_running
SET status = 'completed', locked_at = NULL, locked_until = NULL, updated_at = ?4, finished_at = ?4
WHERE id IN (SELECT value FROM json_each(?1))
    AND fence = ?2
    AND locked_by = ?3
    AND status = 'running'
RETURNING id;
