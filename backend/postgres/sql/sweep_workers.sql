-- Removes the records of workers that have vanished an hour ago (queue.ForgottenAfter). It never waits for a lock.
-- Index: none; the table is short.
DELETE FROM errand.workers
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM errand.workers WHERE seen_at < statement_timestamp() - interval '1 hour' FOR UPDATE SKIP LOCKED
));
