-- Removes the registrations of sleeping workers that are a minute old. A live worker registers again more often, and
-- notifying statements ignore old registrations. It never waits for a lock.
-- Index: none; the list is short.
DELETE FROM errand.sleepers
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM errand.sleepers WHERE since < statement_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED
));
