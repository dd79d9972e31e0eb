-- Removes the buckets in ?1 (pairs of a queue and a group).
-- Index: the table's own order.
DELETE FROM errand_tokens WHERE (queue, job_group) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1));
