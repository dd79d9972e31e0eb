-- Reports whether buckets are full at ?1.
-- Index: none: they are few.
SELECT EXISTS (SELECT 1 FROM errand_tokens WHERE max(full_at, until) <= ?1);
