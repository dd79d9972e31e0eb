-- Lists the priorities with pending jobs in some spans, $4 at most: the number of the span, and the priority. $1 are
-- the queues of the spans, $2 their first priorities and $3 their last ones. One look-up finds each.
-- many is as in sleep.sql.
-- Index: jobs_pending_idx.
WITH RECURSIVE many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
), priorities (span, queue, final, priority) AS (
    SELECT s.n, s.queue, s.final, (
        SELECT j.priority FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = s.queue AND j.status = 'pending' AND j.priority BETWEEN s.first AND s.final
        ORDER BY j.priority LIMIT 1)
    FROM unnest($1::text::text[], $2::text::integer[], $3::text::integer[])
        WITH ORDINALITY AS s (queue, first, final, n)
    UNION ALL
    SELECT last.span, last.queue, last.final, (
        SELECT j.priority FROM errand.jobs j CROSS JOIN many
        WHERE j.queue = last.queue AND j.status = 'pending' AND j.priority > last.priority AND j.priority <= last.final
        ORDER BY j.priority LIMIT 1)
    FROM priorities last
    WHERE last.priority IS NOT NULL
)
SELECT span, priority FROM priorities WHERE priority IS NOT NULL LIMIT $4::integer;
