-- Removes the registrations in the queues $1 of each of the workers $2 up to its number of $3: a worker may have fallen
-- asleep again since. It never waits for a lock.
-- Index: sleepers_pkey.
DELETE FROM errand.sleepers
WHERE ctid = ANY (ARRAY(
    SELECT s.ctid
    FROM unnest($2::text::text[], $3::text::bigint[]) AS w (worker, up_to)
    JOIN errand.sleepers s ON s.queue = ANY ($1::text::text[]) AND s.worker = w.worker AND s.registration <= w.up_to
    FOR UPDATE OF s SKIP LOCKED
));
