-- Finds out what claims of the queues $1 and the kinds $2, NULL for all, scan without use. The plan tells how many
-- pages the query touches: many if there are index entries of dead rows. It also tells how many rows the query returns:
-- jobs of other kinds among the first 200 due jobs of each priority. It changes nothing.
-- many is as in sleep.sql. Like lock_due, priorities finds the first job of each priority.
-- Index: jobs_pending_idx.
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON)
WITH many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
)
SELECT due.id
FROM unnest($1::text::text[]) AS q (queue)
CROSS JOIN LATERAL (
    WITH RECURSIVE priorities (priority, due, id, n) AS (
        (
            SELECT f.priority, f.scheduled_at, f.id, 1
            FROM errand.jobs f CROSS JOIN many
            WHERE f.queue = q.queue AND f.status = 'pending' AND f.priority < 2147483647
            ORDER BY f.priority, f.scheduled_at, f.id
            LIMIT 1
        )
        UNION ALL
        SELECT next.priority, next.scheduled_at, next.id, last.n + 1
        FROM priorities last
        CROSS JOIN LATERAL (
            SELECT f.priority, f.scheduled_at, f.id
            FROM errand.jobs f CROSS JOIN many
            WHERE f.queue = q.queue AND f.status = 'pending'
                AND f.priority > last.priority AND f.priority < 2147483647
            ORDER BY f.priority, f.scheduled_at, f.id
            LIMIT 1
        ) AS next
        WHERE last.n < 1000
    )
    SELECT * FROM priorities WHERE due <= statement_timestamp()
) AS head
CROSS JOIN LATERAL (
    SELECT p.id, p.kind
    FROM errand.jobs p CROSS JOIN many
    WHERE p.queue = q.queue
        AND p.status = 'pending'
        AND p.priority = head.priority
        AND p.scheduled_at <= statement_timestamp()
        AND (p.scheduled_at, p.id) >= (head.due, head.id)
    ORDER BY p.priority, p.scheduled_at, p.id
    LIMIT 200
) AS due
WHERE due.kind <> ALL ($2::text::text[]);
