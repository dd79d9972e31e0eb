-- Says how many pages are touched on the way to the first job of each queue: $1 queues, $2 kinds or NULL for all. They are
-- those of entries that are gone, or of other kinds. Changes nothing.
-- many and line are as in claim.sql.
-- Index: jobs_pending_idx.
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON)
WITH many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
)
SELECT first.id
FROM unnest($1::text::text[]) AS q (queue)
CROSS JOIN LATERAL (
    SELECT due.id
    FROM (
        WITH RECURSIVE line (priority, due, id, n) AS (
            (
                SELECT f.priority, f.scheduled_at, f.id, 1
                FROM errand.jobs f CROSS JOIN many
                WHERE f.queue = q.queue AND f.status = 'pending'
                ORDER BY f.priority, f.scheduled_at, f.id
                LIMIT 1
            )
            UNION ALL
            SELECT next.priority, next.scheduled_at, next.id, l.n + 1
            FROM line l
            CROSS JOIN LATERAL (
                SELECT f.priority, f.scheduled_at, f.id
                FROM errand.jobs f CROSS JOIN many
                WHERE f.queue = q.queue AND f.status = 'pending' AND f.priority > l.priority
                ORDER BY f.priority, f.scheduled_at, f.id
                LIMIT 1
            ) AS next
            WHERE l.n < 1000
        )
        SELECT * FROM line l WHERE l.due <= statement_timestamp() OR l.n = 1000
    ) AS line
    CROSS JOIN LATERAL (
        SELECT one.id FROM (
            SELECT p.id
            FROM errand.jobs p CROSS JOIN many
            WHERE line.n < 1000
                AND p.queue = q.queue
                AND p.status = 'pending'
                AND p.priority = line.priority
                AND p.scheduled_at <= statement_timestamp()
                AND (p.scheduled_at, p.id) >= (line.due, line.id)
                AND ($2::text IS NULL OR p.kind = ANY ((SELECT $2::text::text[])::text[]))
            ORDER BY p.priority, p.scheduled_at, p.id
            LIMIT 1
        ) AS one
        UNION ALL
        SELECT rest.id FROM (
            SELECT p.id
            FROM errand.jobs p CROSS JOIN many
            WHERE line.n = 1000
                AND p.queue = q.queue
                AND p.status = 'pending'
                AND p.scheduled_at <= statement_timestamp()
                AND (p.priority, p.scheduled_at, p.id) >= (line.priority, line.due, line.id)
                AND ($2::text IS NULL OR p.kind = ANY ((SELECT $2::text::text[])::text[]))
            ORDER BY p.priority, p.scheduled_at, p.id
            LIMIT 1
        ) AS rest
    ) AS due
    LIMIT 1
) AS first;
