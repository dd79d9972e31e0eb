-- Writes one job that has a key, and wakes a sleeping worker of its queue: what enqueue.sql does for many, for half the work.
-- The parameters are those of enqueue_one.sql, and $10 is the key. A job whose key a live job holds is not written; the id is then that
-- job's, or NULL where this statement's snapshot does not show it: ask again.
-- Index: jobs_key_idx, sleepers_pkey.
WITH written AS (
    INSERT INTO errand.jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_key)
    VALUES (
        $1::text, $2::text, $3::text::jsonb, coalesce($4::integer, 0),
        coalesce($6::timestamptz, statement_timestamp() + coalesce($5::bigint, 0) * interval '1 microsecond'),
        coalesce($7::integer, 5), $8::text::jsonb, $10::text
    )
    ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running') DO NOTHING
    RETURNING id
)
SELECT
    coalesce((SELECT id FROM written), (
        SELECT live.id FROM errand.jobs live
        WHERE live.queue = $1::text AND live.job_key = $10::text AND live.status IN ('pending', 'running'))),
    NOT EXISTS (SELECT FROM written),
    CASE WHEN $9::boolean AND EXISTS (SELECT FROM written) AND EXISTS (
            SELECT FROM errand.sleepers s WHERE s.queue = $1::text AND s.since > statement_timestamp() - interval '1 minute')
        THEN pg_notify('errand', $1::text)::text
    END;
