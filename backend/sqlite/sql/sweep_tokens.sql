-- Removes the buckets that are full at ?1.
-- Index: none: they are few.
DELETE FROM errand_tokens WHERE max(full_at, until) <= ?1;
