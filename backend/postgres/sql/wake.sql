-- Takes workers $2 off the list of those asleep in the queues $1, unless they have fallen asleep again since nap $3. It waits for nobody.
-- Index: sleepers_pkey.
DELETE FROM errand.sleepers
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM errand.sleepers
    WHERE queue = ANY ($1::text::text[]) AND worker = ANY ($2::text::text[]) AND nap <= $3::bigint
    FOR UPDATE SKIP LOCKED
));
