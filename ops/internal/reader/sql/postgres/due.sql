-- The first 10,000 due jobs of queue $1 in the order of claims, before the place of priority $2, due time $3 and id $4:
-- by kind and group, how many there are, how many of them a claim could take, and for how many seconds the first of
-- these has been due. Of ordered jobs it could take those that are the first of their group, if $5 wants them at all.
-- Index: jobs_pending_idx, jobs_ordered_idx, jobs_ordered_one_idx.
SELECT
    d.kind, coalesce(d.job_group, ''), count(*), count(*) FILTER (WHERE d.is_free),
    coalesce(extract(epoch FROM statement_timestamp()
        - min(greatest(d.scheduled_at, '1970-01-01Z')) FILTER (WHERE d.is_free)), 0)::float8
FROM (
    SELECT
        a.kind, a.job_group, a.scheduled_at,
        CASE WHEN a.ordered IS NOT TRUE THEN true ELSE
            $5::boolean
            AND NOT EXISTS (
                SELECT FROM errand.jobs r
                WHERE r.queue = a.queue AND r.job_group = a.job_group AND r.ordered AND r.status = 'running')
            AND NOT EXISTS (
                SELECT FROM errand.jobs f
                WHERE f.queue = a.queue AND f.job_group = a.job_group AND f.ordered AND f.id < a.id
                    AND f.status IN ('pending', 'held'))
        END AS is_free
    FROM (
        SELECT id, queue, kind, job_group, ordered, scheduled_at FROM errand.jobs
        WHERE queue = $1::text AND status = 'pending'
            AND (priority, scheduled_at, id) < ($2::integer, $3::text::timestamptz, $4::bigint)
            AND scheduled_at <= statement_timestamp()
        ORDER BY priority, scheduled_at, id
        LIMIT 10000
    ) AS a
) AS d
GROUP BY 1, 2
