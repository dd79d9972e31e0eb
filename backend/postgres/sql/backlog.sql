-- For each queue with jobs that are due, in microseconds, how long the oldest of them has been so. The index is walked by leaps: one
-- look-up for each priority in use of a queue finds its oldest job and where the next begins, however many jobs are between.
-- Of a queue whose priorities are as many as timestamps only the 1,000 most urgent are looked at, and 10,000 in all. No job is due before
-- 1970, except where SQL says -infinity, from which no time can be reckoned.
-- many is as in claim.sql.
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
SELECT h.queue, (extract(epoch FROM statement_timestamp() - greatest(min(h.scheduled_at), '1970-01-01Z')) * 1000000)::bigint
FROM (SELECT queue, scheduled_at FROM head LIMIT 10000) AS h
WHERE h.scheduled_at <= statement_timestamp()
GROUP BY h.queue
ORDER BY h.queue COLLATE "C";
