-- Writes jobs and wakes sleeping workers, in one statement for one job or ten thousand, where some have keys.
-- $3 is the payloads, with U+001E between them, which no JSON text contains. The others of $1..$9 are arrays as text, one element
-- a job: $1 and $2, queues and kinds, may have one for all jobs, and the rest may be NULL, for the default throughout. $10 is the array
-- of the distinct queues. Rows are written by insert_keyed (migrations/0005_enqueue_keyed.sql), and returned in the order given.
-- A job whose key a live job holds is not written; the id is then that job's, or NULL where it cannot be seen: ask again.
-- Index: jobs_key_idx, for jobs that have a key.
WITH woken AS MATERIALIZED (
    SELECT count(pg_notify('errand', q.queue)::text) AS queues
    FROM unnest((SELECT $10::text::text[])) AS q (queue)
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = q.queue AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT CASE WHEN w.duplicate THEN w.live_id ELSE w.id END, w.duplicate, (SELECT queues FROM woken) AS woken
FROM errand.insert_keyed(
    $1::text::text[], $2::text::text[], $3::text, $4::text::integer[], $5::text::bigint[], $6::text::timestamptz[],
    $7::text::integer[], $8::text::text[], $9::text::text[]
) WITH ORDINALITY AS w (id, duplicate, live_id, ord)
ORDER BY w.ord;
