-- Removes the buckets in ?1 (arrays of a queue, a group, full_at and until) that nobody has spent from meanwhile.
-- Index: the table's own order.
DELETE FROM errand_tokens
WHERE (queue, job_group, full_at, until) IN (SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?1));
