-- How many pages a claim of the first 100 due jobs of each priority of queue $1 reads. It changes nothing.
-- many is one row that the planner takes for a million: it keeps the order of the index.
-- Index: jobs_pending_idx.
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON)
WITH RECURSIVE many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
), priorities (priority, nth) AS (
    SELECT (
        SELECT j.priority FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = $1::text AND j.status = 'pending'
        ORDER BY j.priority LIMIT 1
    ), 1
    UNION ALL
    SELECT (
        SELECT j.priority FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = $1::text AND j.status = 'pending' AND j.priority > last.priority
        ORDER BY j.priority LIMIT 1
    ), last.nth + 1
    FROM priorities last
    WHERE last.priority IS NOT NULL AND last.nth < 10
)
SELECT d.id
FROM priorities p
CROSS JOIN LATERAL (
    SELECT j.id FROM errand.jobs j CROSS JOIN many
    WHERE j.queue = $1::text AND j.status = 'pending' AND j.priority = p.priority
        AND j.scheduled_at <= statement_timestamp()
    ORDER BY j.scheduled_at, j.id
    LIMIT 100
) AS d
