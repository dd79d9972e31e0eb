-- The settling of design §7: the rows are named by id, fence and worker, of one claim.
UPDATE errand.jobs
SET status = 'completed', locked_at = NULL, locked_until = NULL, updated_at = now()
WHERE id = ANY ($1::bigint[]) AND fence = $2 AND locked_by = $3;
