-- The buckets of the rates of groups of queue $1 that are not full. $2 is a JSON array of the groups, '' for the rate
-- of the queue.
-- Index: tokens_pkey.
SELECT job_group, at, full_at, each, until FROM errand.tokens
WHERE queue = $1::text AND job_group = ANY (ARRAY(SELECT jsonb_array_elements_text($2::text::jsonb)))
