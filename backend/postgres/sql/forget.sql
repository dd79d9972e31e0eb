-- Takes off the list of sleeping workers those that have been there for a minute: a live worker renews itself more often, and what
-- notifies passes over them. It waits for nobody.
-- Index: none; the list is short.
DELETE FROM errand.sleepers
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM errand.sleepers WHERE since < statement_timestamp() - interval '1 minute' FOR UPDATE SKIP LOCKED
));
