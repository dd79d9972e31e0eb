-- Registers worker $2 of the queues $1 as sleeping, with the number $3, if $4. Returns in how many microseconds the
-- queues' next scheduled job is due, NULL if there is none or SQL has put it off to infinity, and how many microseconds
-- all this took, without planning. Returns last in how many microseconds the next tick of a schedule comes, NULL if
-- there is none. It skips along the index to find the priorities, one look-up each, a thousand at
-- most.
-- many is one row that the planner takes for a million. Without it, a planner that expects one pending job or none may
-- read and sort all of them, instead of the first few in the order of the index. Parameters that would change the
-- estimates stand in (SELECT …). Then a plan for their values costs what a generic plan costs, and the server keeps the
-- generic plan. Planning again would take longer than a small batch.
-- Index: jobs_pending_idx, sleepers_pkey, schedules_next_idx.
WITH RECURSIVE many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
), asleep AS (
    INSERT INTO errand.sleepers (queue, worker, registration)
    SELECT DISTINCT q.queue, $2::text, $3::bigint FROM unnest((SELECT $1::text::text[])) AS q (queue)
    WHERE $4::boolean
    ORDER BY q.queue
    ON CONFLICT (queue, worker) DO UPDATE SET registration = excluded.registration, since = excluded.since
    RETURNING queue
), priorities (queue, priority) AS (
    SELECT q.queue, (
        SELECT j.priority FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = q.queue AND j.status = 'pending'
        ORDER BY j.priority LIMIT 1)
    FROM unnest((SELECT $1::text::text[])) AS q (queue)
    UNION ALL
    SELECT last.queue, (
        SELECT j.priority FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = last.queue AND j.status = 'pending' AND j.priority > last.priority
        ORDER BY j.priority LIMIT 1)
    FROM priorities last
    WHERE last.priority IS NOT NULL
)
SELECT
    (extract(epoch FROM min(next.scheduled_at) - statement_timestamp()) * 1000000)::bigint,
    CASE WHEN (SELECT count(*) FROM asleep) >= 0
        THEN (extract(epoch FROM clock_timestamp() - min(begun.at)) * 1000000)::bigint END,
    (SELECT (extract(epoch FROM s.next_at - statement_timestamp()) * 1000000)::bigint
        FROM errand.schedules s WHERE s.next_at IS NOT NULL ORDER BY s.next_at LIMIT 1)
FROM (SELECT clock_timestamp() AS at) AS begun
LEFT JOIN (
    SELECT due.scheduled_at
    FROM (SELECT queue, priority FROM priorities LIMIT 1000) AS p
    CROSS JOIN LATERAL (
        SELECT j.scheduled_at FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = p.queue AND j.priority = p.priority AND j.status = 'pending'
            AND j.scheduled_at > statement_timestamp() AND j.scheduled_at < 'infinity'
        ORDER BY j.scheduled_at LIMIT 1
    ) AS due
    WHERE p.priority IS NOT NULL
) AS next ON true;
