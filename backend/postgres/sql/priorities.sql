-- Lists the priorities of the queues $1 that have pending jobs, $2 at most: the number of the queue in $1, and the
-- priority. One look-up finds each.
-- many is as in sleep.sql.
-- Index: jobs_pending_idx.
WITH RECURSIVE many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
), priorities (queue, rank, priority) AS (
    SELECT q.queue, q.rank, (
        SELECT j.priority FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = q.queue AND j.status = 'pending' AND j.priority < 2147483647
        ORDER BY j.priority LIMIT 1)
    FROM unnest($1::text::text[]) WITH ORDINALITY AS q (queue, rank)
    UNION ALL
    SELECT last.queue, last.rank, (
        SELECT j.priority FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = last.queue AND j.status = 'pending'
            AND j.priority > last.priority AND j.priority < 2147483647
        ORDER BY j.priority LIMIT 1)
    FROM priorities last
    WHERE last.priority IS NOT NULL
)
SELECT rank, priority FROM (SELECT * FROM priorities LIMIT $2::integer) AS p WHERE priority IS NOT NULL;
