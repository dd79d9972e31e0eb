-- Writes one job without a key, and wakes a sleeping worker of its queue. It takes four fifths of the time of
-- enqueue_plain.sql. $1 queue, $2 kind, $3 payload; $4 priority, $5 delay in microseconds, $6 scheduled_at, $7
-- max_attempts and $8 headers, NULL for the default; $9 whether to wake.
-- Index: sleepers_pkey.
INSERT INTO errand.jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers)
VALUES (
    $1::text, $2::text, $3::text::jsonb, coalesce($4::integer, 0),
    coalesce($6::timestamptz, clock_timestamp() + coalesce($5::bigint, 0) * interval '1 microsecond'),
    coalesce($7::integer, 5), $8::text::jsonb
)
RETURNING
    id,
    CASE WHEN $9::boolean AND EXISTS (
        SELECT FROM errand.sleepers s WHERE s.queue = $1::text
            AND s.since > statement_timestamp() - interval '1 minute')
        THEN pg_notify('errand', $1::text)::text END;
