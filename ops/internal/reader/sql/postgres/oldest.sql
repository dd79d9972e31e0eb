-- The pending job of queue $1, and of kind $2 unless that is '', that is due first. It looks at $3 priorities, and for
-- a kind at the $4 jobs of each that are due first.
-- many is one row that the planner takes for a million: it keeps the order of the index.
-- Index: jobs_pending_idx.
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
    WHERE last.priority IS NOT NULL AND last.nth < $3::bigint
)
SELECT f.id
FROM priorities p
CROSS JOIN LATERAL (
    SELECT d.id, d.scheduled_at
    FROM (
        SELECT j.id, j.kind, j.scheduled_at FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = $1::text AND j.status = 'pending' AND j.priority = p.priority
        ORDER BY j.scheduled_at, j.id
        LIMIT CASE WHEN $2::text = '' THEN 1 ELSE $4::bigint END
    ) AS d
    WHERE $2::text IN ('', d.kind)
    ORDER BY d.scheduled_at, d.id
    LIMIT 1
) AS f
WHERE p.priority IS NOT NULL
ORDER BY f.scheduled_at, f.id
LIMIT 1
