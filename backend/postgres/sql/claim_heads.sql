-- Returns the ids of due jobs of the queues $1, of kinds $2 or NULL for all, at most $3 of each queue, in the order in
-- which a claim takes them, without the ids $4.
-- Index: jobs_pending_idx.
SELECT head.id
FROM unnest(($1::text)::text[]) WITH ORDINALITY AS q (name, place)
CROSS JOIN LATERAL (
    SELECT j.id, j.priority, j.scheduled_at
    FROM errand.jobs j
    WHERE j.queue = q.name AND j.status = 'pending' AND j.scheduled_at <= statement_timestamp()
        AND ($2::text IS NULL OR j.kind = ANY (($2::text)::text[]))
        AND j.id <> ALL (($4::text)::bigint[])
    ORDER BY j.queue, j.priority, j.scheduled_at, j.id
    LIMIT $3::integer
) AS head
ORDER BY q.place, head.priority, head.scheduled_at, head.id;
