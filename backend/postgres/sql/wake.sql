-- Takes the worker $2 off the list of those asleep in the queues $1, and with it whoever has been on it for a minute: a
-- live worker renews itself at each poll. Rows that another deletes at this moment are left to it.
-- Index: sleepers_pkey.
DELETE FROM errand.sleepers
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM errand.sleepers
    WHERE queue = ANY ($1::text::text[]) AND worker = $2::text
        OR since < statement_timestamp() - interval '1 minute'
    FOR UPDATE SKIP LOCKED
));
