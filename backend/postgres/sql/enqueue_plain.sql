-- Writes jobs that have no keys, and wakes sleeping workers, in one statement for one job or ten thousand: what enqueue.sql does
-- for any, for half the work. $1..$8 are arrays as text, one element a job; one that is NULL as a whole stands for the default
-- throughout. $9 is the array of the distinct queues. Rows are written, and ids drawn and returned, in the order given.
-- Parameters stand in (SELECT …) for the reason that claim.sql gives.
-- Index: sleepers_pkey.
WITH woken AS MATERIALIZED (
    SELECT count(pg_notify('errand', q.queue)::text) AS queues
    FROM unnest((SELECT $9::text::text[])) AS q (queue)
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = q.queue)
)
INSERT INTO errand.jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers)
SELECT
    t.queue, t.kind, t.payload::jsonb, coalesce(t.priority, 0),
    coalesce(t.scheduled_at, statement_timestamp() + coalesce(t.delay, 0) * interval '1 microsecond'),
    coalesce(t.max_attempts, 5), t.headers::jsonb
FROM unnest(
    (SELECT $1::text::text[]), (SELECT $2::text::text[]), (SELECT $3::text::text[]), (SELECT $4::text::integer[]),
    (SELECT $5::text::bigint[]), (SELECT $6::text::timestamptz[]), (SELECT $7::text::integer[]), (SELECT $8::text::text[])
) AS t (queue, kind, payload, priority, delay, scheduled_at, max_attempts, headers)
RETURNING id, (SELECT queues FROM woken);
