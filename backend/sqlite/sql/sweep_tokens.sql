-- Removes the buckets in ?2 (pairs of a queue and a group) that are still full at ?1.
-- Index: the table's own order.
DELETE FROM errand_tokens
WHERE (queue, job_group) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?2)) AND max(full_at, until) <= ?1;
