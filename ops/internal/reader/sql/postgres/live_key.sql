-- The live jobs that have the key $1, in queue $2, or in any queue if that is ''.
-- Index: jobs_key_idx.
SELECT id FROM errand.jobs
WHERE job_key = $1::text AND status IN ('pending', 'running', 'held') AND ($2::text = '' OR queue = $2::text)
LIMIT 100
