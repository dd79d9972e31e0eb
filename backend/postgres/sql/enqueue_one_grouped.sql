-- Writes one job that has a group or a cost, and no key, and wakes a sleeping worker of its queue. It is
-- enqueue_one.sql with the parameters $10 group, $11 ordered and $12 cost.
-- Index: sleepers_pkey.
INSERT INTO errand.jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_group, ordered, cost)
VALUES (
    $1::text, $2::text, $3::text::jsonb, coalesce($4::integer, 0),
    coalesce($6::timestamptz, clock_timestamp() + coalesce($5::bigint, 0) * interval '1 microsecond'),
    coalesce($7::integer, 5), $8::text::jsonb, $10::text, $11::boolean, $12::integer
)
RETURNING
    id,
    CASE WHEN $9::boolean AND EXISTS (
        SELECT FROM errand.sleepers s WHERE s.queue = $1::text
            AND s.since > statement_timestamp() - interval '1 minute')
        THEN pg_notify('errand', $1::text)::text END;
