-- Settles the jobs of one claim, by id, fence and worker.
UPDATE errand.jobs
SET status = 'completed', locked_at = NULL, locked_until = NULL, updated_at = now()
WHERE id = ANY ($1::bigint[]) AND fence = $2 AND locked_by = $3;
