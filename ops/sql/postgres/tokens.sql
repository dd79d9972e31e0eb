-- The buckets of the rate of queue $1, and of that of its group $2, that are not full.
-- Index: tokens_pkey.
SELECT job_group, at, full_at, each, until FROM errand.tokens WHERE queue = $1::text AND job_group IN ('', $2::text)
