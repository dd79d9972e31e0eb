-- Deletes the job with id ?1, which the transaction has claimed.
-- Index: the ids are the table's own order.
DELETE FROM errand_jobs WHERE id = ?1;
