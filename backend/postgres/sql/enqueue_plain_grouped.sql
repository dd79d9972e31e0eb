-- Writes jobs without keys of which some have groups or costs, and wakes sleeping workers. It is enqueue_plain.sql with
-- the arrays $10 groups, $11 ordered and $12 costs.
-- Index: sleepers_pkey.
WITH woken AS MATERIALIZED (
    SELECT count(pg_notify('errand', q.queue)::text) AS queues
    FROM unnest((SELECT $9::text::text[])) AS q (queue)
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = q.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
INSERT INTO errand.jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_group, ordered, cost)
SELECT
    coalesce(t.queue, (SELECT ($1::text::text[])[1])), coalesce(t.kind, (SELECT ($2::text::text[])[1])),
    t.payload::jsonb, coalesce(t.priority, 0),
    coalesce(t.scheduled_at, (SELECT clock_timestamp()) + coalesce(t.delay, 0) * interval '1 microsecond'),
    coalesce(t.max_attempts, 5), t.headers::jsonb, t.job_group, t.ordered, t.cost
FROM unnest(
    (SELECT $1::text::text[]), (SELECT $2::text::text[]), (SELECT string_to_array($3::text, E'\x1e')),
    (SELECT $4::text::integer[]), (SELECT $5::text::bigint[]),
    (SELECT array_replace($6::text::timestamptz[], '-infinity', NULL)),
    (SELECT array_replace($7::text::integer[], 0, NULL)), (SELECT array_replace($8::text::text[], '', NULL)),
    (SELECT array_replace($10::text::text[], '', NULL)), (SELECT array_replace($11::text::boolean[], false, NULL)),
    (SELECT array_replace($12::text::integer[], 0, NULL))
) AS t (queue, kind, payload, priority, delay, scheduled_at, max_attempts, headers, job_group, ordered, cost)
WHERE (SELECT queues FROM woken) >= 0
RETURNING id;
