-- The live job that has the key $1, in queue $2, or in any queue if that is ''. The newest if several queues have one.
-- Index: jobs_key_idx.
SELECT coalesce(max(id), 0) FROM errand.jobs
WHERE job_key = $1::text AND status IN ('pending', 'running', 'held') AND ($2::text = '' OR queue = $2::text)
