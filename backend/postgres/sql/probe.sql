-- Finds out what claims of the queues $1 and the kinds $2, NULL for all, scan without use. The plan tells how many pages it
-- touches: many if there are index entries of dead rows. It also tells how many rows it returns: jobs of other kinds
-- among the first 200 due jobs of each priority. It changes nothing.
-- many is as in sleep.sql, and line finds the priorities as lock_due does.
-- Index: jobs_pending_idx.
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON)
WITH many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
)
SELECT due.id
FROM unnest($1::text::text[]) AS q (queue)
CROSS JOIN LATERAL (
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
    SELECT * FROM line l WHERE l.due <= statement_timestamp()
) AS line
CROSS JOIN LATERAL (
    SELECT p.id, p.kind
    FROM errand.jobs p CROSS JOIN many
    WHERE p.queue = q.queue
        AND p.status = 'pending'
        AND p.priority = line.priority
        AND p.scheduled_at <= statement_timestamp()
        AND (p.scheduled_at, p.id) >= (line.due, line.id)
    ORDER BY p.priority, p.scheduled_at, p.id
    LIMIT 200
) AS due
WHERE due.kind <> ALL ($2::text::text[]);
