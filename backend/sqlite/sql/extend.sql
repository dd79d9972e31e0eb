-- Extends leases. ?1 is the JSON array of the ids of jobs that worker ?3 holds with fence ?2; ?4 is now, ?5
-- the end of the lease. Returns the ids of the jobs that the worker does hold, and whether it is asked to cancel
-- them.
-- Index: errand_jobs_running.
UPDATE errand_jobs INDEXED BY errand_jobs_running
SET locked_at = ?4, locked_until = ?5
WHERE id IN (SELECT value FROM json_each(?1))
    AND fence = ?2
    AND locked_by = ?3
    AND status = 'running'
RETURNING id, cancel_at IS NOT NULL;
