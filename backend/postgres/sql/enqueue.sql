-- Writes jobs and wakes sleeping workers, in one statement for one job or ten thousand.
-- $3 is the payloads, with U+001E between them, which no JSON text contains. The others of $1..$9 are arrays as text, one element
-- a job: $1 and $2, queues and kinds, may have one for all jobs, and the rest may be NULL, for the default throughout. $10 is the array of the distinct queues. Ids are drawn in the order given, before the rows are written. They are
-- written in the order of their keys: a row waits for another transaction that writes the same key, so two batches
-- that met each other's keys in different orders would deadlock.
-- A job whose key a live job holds is not written; live_id is then that job's id, or NULL where this statement's
-- snapshot does not show it: ask again.
-- Index: jobs_key_idx, for jobs that have a key.
WITH input AS MATERIALIZED (
    SELECT
        nextval('errand.jobs_id_seq') AS id,
        coalesce(t.queue, (SELECT ($1::text::text[])[1])) AS queue, coalesce(t.kind, (SELECT ($2::text::text[])[1])) AS kind,
        t.payload, t.priority, t.delay, t.scheduled_at, t.max_attempts, t.job_key, t.headers, t.ord
    FROM unnest(
        (SELECT $1::text::text[]), (SELECT $2::text::text[]), (SELECT string_to_array($3::text, E'\x1e')), (SELECT $4::text::integer[]),
        (SELECT $5::text::bigint[]), (SELECT $6::text::timestamptz[]), (SELECT $7::text::integer[]), (SELECT $8::text::text[]),
        (SELECT $9::text::text[])
    ) WITH ORDINALITY AS t (queue, kind, payload, priority, delay, scheduled_at, max_attempts, job_key, headers, ord)
), written AS (
    INSERT INTO errand.jobs (id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers)
    SELECT
        id, queue, kind, payload::jsonb, coalesce(priority, 0),
        coalesce(scheduled_at, statement_timestamp() + coalesce(delay, 0) * interval '1 microsecond'),
        coalesce(max_attempts, 5), job_key, headers::jsonb
    FROM input
    ORDER BY job_key COLLATE "C", queue COLLATE "C", ord
    ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running') DO NOTHING
    RETURNING id
), woken AS (
    SELECT pg_notify('errand', q.queue)
    FROM unnest((SELECT $10::text::text[])) AS q (queue)
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = q.queue AND s.since > statement_timestamp() - interval '1 minute')
), result AS (
    SELECT id, queue, job_key, ord, job_key IS NOT NULL AND id NOT IN (SELECT id FROM written) AS duplicate
    FROM input
)
SELECT id, duplicate,
    CASE WHEN duplicate THEN (
        SELECT live.id FROM errand.jobs live
        WHERE live.queue = result.queue AND live.job_key = result.job_key AND live.status IN ('pending', 'running')
    ) END AS live_id,
    (SELECT count(*) FROM woken) AS woken
FROM result
ORDER BY ord;
