-- Removes the registrations of the workers $2 in the queues $1 up to number $3: a worker may have fallen asleep again
-- since. It never waits for a lock.
-- Index: sleepers_pkey.
DELETE FROM errand.sleepers
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM errand.sleepers
    WHERE queue = ANY ($1::text::text[]) AND worker = ANY ($2::text::text[]) AND registration <= $3::bigint
    FOR UPDATE SKIP LOCKED
));
