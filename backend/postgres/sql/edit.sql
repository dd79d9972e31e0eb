-- Changes the jobs with the ids $1, if they have queue $2, kind $3, group $4 and key $5, each NULL for any, and one of
-- the statuses $6, of which pending and held count. It returns ids as redrive.sql does, and $7 is as there: a job with
-- a key that moves to another queue is changed alone, and stays where it is if a live job of that queue has its key.
-- What becomes of the jobs: due now if $8, and then pending; else due at $9, or $10 microseconds from now; $11
-- priority, $12 queue, $13 max_attempts. Each may be NULL, and then stays as it is. $14 is the payload. Where it stays,
-- the program removes that line: a role that may write payloads need not be able to read them.
-- The transaction draws its number before the clock is read: rationed claims (ration_marks.go) need the two to be
-- close.
-- Index: jobs_pkey, jobs_key_idx.
WITH found AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND ($2::text IS NULL OR queue = $2::text)
        AND ($3::text IS NULL OR kind = $3::text)
        AND ($4::text IS NULL OR job_group = $4::text)
        AND ($5::text IS NULL OR job_key = $5::text)
        AND status IN ('pending', 'held') AND status::text = ANY ($6::text::text[])
), locked AS MATERIALIZED (
    SELECT id, queue, job_key FROM errand.jobs
    WHERE id = ANY (ARRAY(SELECT id FROM found))
        AND ($2::text IS NULL OR queue = $2::text)
        AND ($3::text IS NULL OR kind = $3::text)
        AND ($4::text IS NULL OR job_group = $4::text)
        AND ($5::text IS NULL OR job_key = $5::text)
        AND status IN ('pending', 'held') AND status::text = ANY ($6::text::text[])
        AND ($7::boolean OR job_key IS NULL OR $12::text IS NULL OR queue = $12::text)
    ORDER BY id
    FOR UPDATE SKIP LOCKED
), changed AS (
    UPDATE errand.jobs AS j
    SET
        status = CASE WHEN $8::boolean THEN 'pending' ELSE j.status END,
        scheduled_at = CASE
            WHEN $8::boolean THEN (SELECT CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END)
            WHEN $10::bigint IS NOT NULL THEN (SELECT clock_timestamp()) + $10::bigint * interval '1 microsecond'
            ELSE coalesce($9::timestamptz, j.scheduled_at) END,
        priority = CASE WHEN j.ordered THEN j.priority ELSE coalesce($11::integer, j.priority) END,
        queue = coalesce($12::text, j.queue),
        max_attempts = coalesce($13::integer, j.max_attempts),
        payload = $14::text::jsonb,
        updated_at = statement_timestamp()
    WHERE id = ANY (ARRAY(
        SELECT l.id FROM locked l
        WHERE l.job_key IS NULL OR $12::text IS NULL OR l.queue = $12::text OR NOT EXISTS (
            SELECT FROM errand.jobs live
            WHERE live.queue = $12::text AND live.job_key = l.job_key AND live.status IN ('pending', 'running', 'held'))))
    RETURNING id, queue, status
), woken AS (
    SELECT pg_notify('errand', c.queue)
    FROM (SELECT DISTINCT queue FROM changed WHERE status = 'pending') AS c
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = c.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT id, true FROM changed WHERE (SELECT count(*) FROM woken) >= 0
UNION ALL
(SELECT id, false FROM found EXCEPT SELECT id, false FROM locked);
