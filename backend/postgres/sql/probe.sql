-- Says how many pages are touched on the way to the first job of each queue: $1 queues, $2 kinds or NULL for all. They are
-- those of entries that are gone, or of other kinds. Changes nothing.
-- Index: jobs_pending_idx.
EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON)
SELECT first.id
FROM unnest($1::text::text[]) AS q (queue)
CROSS JOIN LATERAL (
    SELECT p.id
    FROM errand.jobs p
    WHERE p.queue = q.queue
        AND p.status = 'pending'
        AND p.scheduled_at <= statement_timestamp()
        AND ($2::text IS NULL OR p.kind = ANY ((SELECT $2::text::text[])::text[]))
    ORDER BY p.priority, p.scheduled_at, p.id
    LIMIT 1
) AS first;
