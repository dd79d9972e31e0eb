-- Returns all buckets.
-- Index: none: they are few.
SELECT queue, job_group, at, full_at, each, until FROM errand_tokens;
