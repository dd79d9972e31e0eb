-- Takes the worker $2 off the list of those asleep in the queues $1, unless it has fallen asleep again since nap $3; and
-- whoever has been on it for a minute: a live worker renews itself at each poll. It waits for nobody.
-- Index: sleepers_pkey.
DELETE FROM errand.sleepers
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM errand.sleepers
    WHERE queue = ANY ($1::text::text[]) AND worker = $2::text AND nap <= $3::bigint
        OR since < statement_timestamp() - interval '1 minute'
    FOR UPDATE SKIP LOCKED
));
