-- Completes the job with id ?1, which the transaction has claimed, at ?2.
-- Index: the ids are the table's own order.
UPDATE errand_jobs SET status = 'completed', attempts = min(attempts, 2147483646) + 1, updated_at = ?2 WHERE id = ?1;
