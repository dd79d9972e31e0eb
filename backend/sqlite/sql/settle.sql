-- Records an outcome other than done of the job with id ?1, which worker ?3 holds with fence ?2: ?4 is now, ?5 the verb, ?6 the time at
-- which it is due again, or NULL for the time at which it was, ?7 the error. Returns the job's queue and new status if the worker does
-- hold it. One job at a time: UPDATE ... FROM is planned the wrong way round, and an INSERT with ON CONFLICT fires triggers of the
-- application.
-- Index: errand_jobs_running.
UPDATE errand_jobs INDEXED BY errand_jobs_running
SET
    status = iif(?5 = 'dead' OR ?5 = 'retry' AND attempts >= max_attempts, 'dead', 'pending'),
    attempts = iif(?5 = 'release', max(attempts - 1, 0), attempts),
    scheduled_at = iif(?5 = 'dead' OR ?5 = 'retry' AND attempts >= max_attempts, scheduled_at, coalesce(?6, scheduled_at)),
    last_error = iif(?5 = 'release', last_error, ?7),
    fence = 0,
    locked_at = NULL,
    locked_until = NULL,
    locked_by = NULL,
    updated_at = ?4
WHERE id = ?1
    AND fence = ?2
    AND locked_by = ?3
    AND status = 'running'
RETURNING queue, status;
