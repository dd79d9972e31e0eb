-- Takes due jobs: $1 queues in priority order, $2 kinds or NULL for all, $3 limit, $4 lease in microseconds, $5 worker.
-- Each queue is walked along its index only until the limit is full, and only rows that are returned get locked. The
-- inner select runs once, as an init plan, so the limit holds whatever the plan; ctid is safe, because
-- the rows are locked in this very statement (one that moved before it was locked is merely not returned).
-- Index: jobs_pending_idx.
UPDATE errand.jobs AS j
SET
    status = 'running',
    attempts = j.attempts + 1,
    fence = (SELECT nextval('errand.fences')),
    locked_at = statement_timestamp(),
    locked_by = $5::text,
    locked_until = statement_timestamp() + $4::bigint * interval '1 microsecond',
    updated_at = statement_timestamp()
WHERE j.ctid = ANY (ARRAY(
    SELECT due.ctid
    FROM unnest($1::text::text[]) WITH ORDINALITY AS q (queue, rank)
    CROSS JOIN LATERAL (
        SELECT p.ctid
        FROM errand.jobs p
        WHERE p.queue = q.queue
            AND p.status = 'pending'
            AND p.scheduled_at <= statement_timestamp()
            AND ($2::text IS NULL OR p.kind = ANY ((SELECT $2::text::text[])::text[]))
        ORDER BY p.priority, p.scheduled_at, p.id
        LIMIT $3::integer
        FOR UPDATE SKIP LOCKED
    ) AS due
    LIMIT $3::integer
))
RETURNING
    j.id, j.queue, j.kind, j.payload, j.priority, j.scheduled_at, j.attempts, j.max_attempts,
    j.fence, j.created_at, coalesce(j.job_key, ''), j.headers, coalesce(j.last_error, '');
