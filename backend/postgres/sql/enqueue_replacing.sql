-- Writes one job or ten thousand, of which some replace the live job that has their key, and wakes sleeping workers.
-- The parameters $1 to $12 are those of enqueue.sql. $13 and $14 are the arrays of whether a job replaces, and of its
-- longest delay in microseconds, and $15 of the costs. insert_replacing (migrations/0002_enqueue.sql) writes the rows.
-- They are returned in the order given.
-- Index: jobs_key_idx.
WITH woken AS MATERIALIZED (
    SELECT count(pg_notify('errand', q.queue)::text) AS queues
    FROM unnest((SELECT $10::text::text[])) AS q (queue)
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = q.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT w.id, w.duplicate, w.replaced, (SELECT queues FROM woken) AS woken
FROM errand.insert_replacing(
    $1::text::text[], $2::text::text[], $3::text, $4::text::integer[], $5::text::bigint[],
    array_replace($6::text::timestamptz[], '-infinity', NULL), array_replace($7::text::integer[], 0, NULL),
    array_replace($8::text::text[], '', NULL), array_replace($9::text::text[], '', NULL),
    array_replace($11::text::text[], '', NULL), array_replace($12::text::boolean[], false, NULL),
    $13::text::boolean[], array_replace($14::text::bigint[], 0::bigint, NULL),
    array_replace($15::text::integer[], 0, NULL)
) WITH ORDINALITY AS w (id, duplicate, replaced, ord)
ORDER BY w.ord;
