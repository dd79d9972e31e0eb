-- Redrives dead jobs. ?1 is the JSON array of their ids, ?2 is now. OR IGNORE leaves a job dead if a live job
-- has its key, also one of the same statement. Returns the queue of each job that is pending now.
-- Index: errand_jobs_dead, errand_jobs_key.
UPDATE OR IGNORE errand_jobs INDEXED BY errand_jobs_dead
SET
    status = 'pending',
    attempts = 0,
    last_error = NULL,
    scheduled_at = ?2,
    fence = 0,
    locked_at = NULL,
    locked_until = NULL,
    locked_by = NULL,
    updated_at = ?2,
    started_at = NULL,
    finished_at = NULL,
    redriven_at = ?2,
    redrives = min(max(coalesce(redrives, 0), 0), 2147483646) + 1
WHERE id IN (SELECT value FROM json_each(?1))
    AND status = 'dead'
RETURNING queue;
