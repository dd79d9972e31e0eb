-- Scans up to $8 pending jobs of queue $1 and priority $3 that rationed claims skip: behind the due time $4 and id $5,
-- before the due time $6 and id $7. Returns how many there were, the due time and id of the last, and those of the
-- first of the kinds $2, NULL for all, and if $9 without a group. Without any, the lowest id.
-- many is as in sleep.sql.
-- Index: jobs_pending_idx.
WITH many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
)
SELECT
    count(*), coalesce(greatest((array_agg(s.scheduled_at))[count(*)], '1970-01-01Z'), '1970-01-01Z'),
    coalesce((array_agg(s.id))[count(*)], 0),
    coalesce(greatest((array_agg(s.scheduled_at) FILTER (WHERE s.ours))[1], '1970-01-01Z'), '1970-01-01Z'),
    coalesce((array_agg(s.id) FILTER (WHERE s.ours))[1], -9223372036854775808)
FROM (
    SELECT
        p.scheduled_at, p.id,
        ($2::text IS NULL OR p.kind = ANY ((SELECT $2::text::text[])::text[])) AND (p.job_group IS NULL OR NOT $9::boolean) AS ours
    FROM errand.jobs p CROSS JOIN many
    WHERE p.queue = $1::text
        AND p.status = 'pending'
        AND p.priority = $3::integer
        AND p.scheduled_at <= $6::text::timestamptz
        AND (p.scheduled_at, p.id) < ($6::text::timestamptz, $7::bigint)
        AND (p.scheduled_at, p.id) > ($4::text::timestamptz, $5::bigint)
    ORDER BY p.priority, p.scheduled_at, p.id
    LIMIT $8::integer
) AS s;
