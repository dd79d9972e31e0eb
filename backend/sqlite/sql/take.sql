-- Gives jobs to a worker: ?1 is the JSON array of their ids, ?2 the fence, ?3 now, ?4 the end of the lease, ?5 the worker. The
-- transaction has found them pending and has the write lock.
-- Index: the ids are the table's own order.
UPDATE errand_jobs
SET
    status = 'running',
    attempts = attempts + 1,
    fence = ?2,
    locked_at = ?3,
    locked_until = ?4,
    locked_by = ?5,
    updated_at = ?3
WHERE id IN (SELECT value FROM json_each(?1));
