-- Writes one job with a key, and wakes a sleeping worker of its queue. It takes half the time of enqueue.sql. The
-- parameters are those of enqueue_one.sql, and $10 is the key. The job is not written if a live job holds its key. Its
-- id is then the live job's id, or NULL if this statement's snapshot does not show that job: run it again.
-- The transaction draws its number before the clock is read. The INSERT may wait for another transaction that writes
-- the same key, and rationed claims (ration_marks.go) expect a job to be due after its transaction was seen.
-- Index: jobs_key_idx, sleepers_pkey.
WITH written AS (
    INSERT INTO errand.jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_key)
    VALUES (
        $1::text, $2::text, $3::text::jsonb, coalesce($4::integer, 0),
        coalesce($6::timestamptz, CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END
            + coalesce($5::bigint, 0) * interval '1 microsecond'),
        coalesce($7::integer, 5), $8::text::jsonb, $10::text
    )
    ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO NOTHING
    RETURNING id
)
SELECT
    coalesce((SELECT id FROM written), (
        SELECT live.id FROM errand.jobs live
        WHERE live.queue = $1::text AND live.job_key = $10::text AND live.status IN ('pending', 'running', 'held'))),
    NOT EXISTS (SELECT FROM written),
    CASE WHEN $9::boolean AND EXISTS (SELECT FROM written) AND EXISTS (
            SELECT FROM errand.sleepers s WHERE s.queue = $1::text
                AND s.since > statement_timestamp() - interval '1 minute')
        THEN pg_notify('errand', $1::text)::text
    END;
