-- Returns the bucket of group ?2 of queue ?1, or of the queue if ?2 is ''.
-- Index: the table's own order.
SELECT at, full_at, each, until FROM errand_tokens WHERE queue = ?1 AND job_group = ?2;
