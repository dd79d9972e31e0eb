-- Makes a job that this transaction has claimed ready to be settled. ?1 is its id, ?2 its fence, ?4 now. ?3 is
-- completed if the job stays completed, and otherwise running; ?5 is the worker that then holds it. Returns
-- its id.
-- Index: the ids are the table's own order.
UPDATE errand_jobs
SET
    status = ?3,
    locked_by = iif(?3 = 'running', ?5, NULL),
    locked_at = iif(?3 = 'running', ?4, NULL),
    locked_until = iif(?3 = 'running', ?4, NULL),
    updated_at = ?4,
    finished_at = iif(?3 = 'completed', ?4, NULL)
WHERE id = ?1 AND fence = ?2 AND locked_by IS NULL AND status = 'completed'
RETURNING id;
