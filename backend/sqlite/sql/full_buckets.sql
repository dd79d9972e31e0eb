-- Returns the buckets that are full at ?1, at the rates at which they were last spent from.
-- Index: none: they are few.
SELECT queue, job_group, at, full_at, each, until FROM errand_tokens WHERE max(full_at, until) <= ?1;
