-- Settles jobs by id, in the JSON array ?1, and worker.
UPDATE errand_jobs
SET status = 'completed', locked_at = NULL, locked_until = NULL, updated_at = ?3
WHERE id IN (SELECT value FROM json_each(?1)) AND locked_by = ?2;
