-- Writes one job or ten thousand, of which some have keys, groups or costs, and wakes sleeping workers. $3 is the
-- payloads, with U+001E between them, which no JSON text contains. The other parameters $1 to $9 are arrays as text,
-- with one element a job. $1 and $2, queues and kinds, may have one element for all jobs; the others may be NULL if
-- every job has the default. $10 is the array of the distinct queues, $11, $12 and $13 are
-- the arrays of the groups, of whether they are ordered, and of the costs, as $3 to $9.
-- No array has NULL, which is a word where array_nulls is off: '', 0, false or -infinity stands for no value.
-- insert_keyed (migrations/0002_enqueue.sql) writes the rows. They are returned in the order given. A job is not
-- written if a live job holds its key, one of the same batch included. Its id is then the live job's id, or NULL if the
-- statement cannot see that job: run it again for the job.
-- Index: jobs_key_idx, for jobs that have a key.
WITH woken AS MATERIALIZED (
    SELECT count(pg_notify('errand', q.queue)::text) AS queues
    FROM unnest((SELECT $10::text::text[])) AS q (queue)
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = q.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT CASE WHEN w.duplicate THEN w.live_id ELSE w.id END, w.duplicate, (SELECT queues FROM woken) AS woken
FROM errand.insert_keyed(
    $1::text::text[], $2::text::text[], $3::text, $4::text::integer[], $5::text::bigint[],
    array_replace($6::text::timestamptz[], '-infinity', NULL), array_replace($7::text::integer[], 0, NULL),
    array_replace($8::text::text[], '', NULL), array_replace($9::text::text[], '', NULL),
    array_replace($11::text::text[], '', NULL), array_replace($12::text::boolean[], false, NULL),
    array_replace($13::text::integer[], 0, NULL)
) WITH ORDINALITY AS w (id, duplicate, live_id, ord)
ORDER BY w.ord;
