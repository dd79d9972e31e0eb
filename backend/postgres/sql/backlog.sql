-- Returns for each queue with due jobs how long the oldest of them has been due, in microseconds.
-- It skips along the index: one look-up for each priority of a queue finds its oldest job and the next priority,
-- however many jobs lie between. It looks at the 1,000 most urgent priorities of a queue at most, and at 10,000 in all.
-- A job that is due before 1970, such as at -infinity, counts as due in 1970.
-- many is as in sleep.sql.
-- Index: jobs_pending_idx.
WITH RECURSIVE many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
), head (queue, priority, scheduled_at, nth) AS (
    (
        SELECT j.queue, j.priority, j.scheduled_at, 1
        FROM errand.jobs j CROSS JOIN many
        WHERE j.status = 'pending'
        ORDER BY j.queue, j.priority, j.scheduled_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.queue, n.priority, n.scheduled_at, CASE WHEN n.queue = h.queue THEN h.nth + 1 ELSE 1 END
    FROM head h
    CROSS JOIN LATERAL (
        SELECT j.queue, j.priority, j.scheduled_at
        FROM errand.jobs j CROSS JOIN many
        WHERE j.status = 'pending'
            AND (j.queue, j.priority) > (h.queue, CASE WHEN h.nth < 1000 THEN h.priority ELSE 2147483647 END)
        ORDER BY j.queue, j.priority, j.scheduled_at
        LIMIT 1
    ) AS n
)
SELECT
    h.queue,
    (extract(epoch FROM statement_timestamp() - greatest(min(h.scheduled_at), '1970-01-01Z')) * 1000000)::bigint
FROM (SELECT queue, scheduled_at FROM head LIMIT 10000) AS h
WHERE h.scheduled_at <= statement_timestamp()
GROUP BY h.queue
ORDER BY h.queue COLLATE "C";
