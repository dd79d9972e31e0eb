-- Writes two jobs without keys, or ten thousand, and wakes sleeping workers. It takes half the time of enqueue.sql. $3
-- is the payloads, with U+001E between them, which no JSON text contains: so nothing is quoted and parsed as an array.
-- The other parameters $1 to $8 are arrays as text, with one element a job. $1 and $2, queues and kinds, may have one
-- element for all jobs; the others may be NULL if every job has the default. $9 is the array of the distinct queues.
-- Jobs without a due time are due when the first row is written, not when the statement arrived: rationed claims
-- (ration_marks.go) need the two times to be close together.
-- Ids are drawn, and rows written and returned, in the order given. The condition is always true, and is evaluated
-- before the first row. Parameters stand in (SELECT …) for the reason that sleep.sql gives.
-- Index: sleepers_pkey.
WITH woken AS MATERIALIZED (
    SELECT count(pg_notify('errand', q.queue)::text) AS queues
    FROM unnest((SELECT $9::text::text[])) AS q (queue)
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = q.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
INSERT INTO errand.jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers)
SELECT
    coalesce(t.queue, (SELECT ($1::text::text[])[1])), coalesce(t.kind, (SELECT ($2::text::text[])[1])),
    t.payload::jsonb, coalesce(t.priority, 0),
    coalesce(t.scheduled_at, (SELECT clock_timestamp()) + coalesce(t.delay, 0) * interval '1 microsecond'),
    coalesce(t.max_attempts, 5), t.headers::jsonb
FROM unnest(
    (SELECT $1::text::text[]), (SELECT $2::text::text[]), (SELECT string_to_array($3::text, E'\x1e')),
    (SELECT $4::text::integer[]), (SELECT $5::text::bigint[]),
    (SELECT array_replace($6::text::timestamptz[], '-infinity', NULL)),
    (SELECT array_replace($7::text::integer[], 0, NULL)), (SELECT array_replace($8::text::text[], '', NULL))
) AS t (queue, kind, payload, priority, delay, scheduled_at, max_attempts, headers)
WHERE (SELECT queues FROM woken) >= 0
RETURNING id;
