-- Gives a worker the jobs that due.sql or due_beyond.sql has found in the same transaction: of queue ?1 and priority ?2, up to the one
-- that is due at ?3 and has id ?4, of the kinds in ?5. ?6 is the fence, ?7 now, ?8 the end of the lease, ?9 the worker.
-- Index: errand_jobs_pending.
UPDATE errand_jobs INDEXED BY errand_jobs_pending
SET
    status = 'running',
    attempts = attempts + 1,
    fence = ?6,
    locked_at = ?7,
    locked_until = ?8,
    locked_by = ?9,
    updated_at = ?7
WHERE queue = ?1
    AND status = 'pending'
    AND priority = ?2
    AND scheduled_at <= ?3
    AND (scheduled_at < ?3 OR id <= ?4)
    AND (?5 IS NULL OR kind IN (SELECT value FROM json_each(?5)));
