-- Claims one job in the caller's transaction and completes it there: $1 queues, $2 kinds or NULL for all. The row stays
-- locked until the transaction ends, so other claims skip it. A rollback leaves the job pending. It is the guide's
-- queue_in_tx, except that it keeps the row: resume.sql finds it by its fence if the work has failed.
-- many and line are as in claim.sql.
-- Index: jobs_pending_idx.
WITH many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
), due AS MATERIALIZED (
    SELECT d.ctid
    FROM unnest($1::text::text[]) WITH ORDINALITY AS q (queue, rank)
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
        SELECT * FROM line l WHERE l.due <= statement_timestamp() OR l.n = 1000
    ) AS line
    CROSS JOIN LATERAL (
        SELECT one.ctid FROM (
            SELECT p.ctid
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
            FOR UPDATE OF p SKIP LOCKED
        ) AS one
        UNION ALL
        SELECT rest.ctid FROM (
            SELECT p.ctid
            FROM errand.jobs p CROSS JOIN many
            WHERE line.n = 1000
                AND p.queue = q.queue
                AND p.status = 'pending'
                AND p.scheduled_at <= statement_timestamp()
                AND (p.priority, p.scheduled_at, p.id) >= (line.priority, line.due, line.id)
                AND ($2::text IS NULL OR p.kind = ANY ((SELECT $2::text::text[])::text[]))
            ORDER BY p.priority, p.scheduled_at, p.id
            LIMIT 1
            FOR UPDATE OF p SKIP LOCKED
        ) AS rest
    ) AS d
    LIMIT 1
), taken AS (
    UPDATE errand.jobs AS j
    SET
        status = 'completed', attempts = least(j.attempts, 1999999999) + 1, fence = nextval('errand.fences'),
        locked_by = NULL,
        updated_at = transaction_timestamp(), started_at = statement_timestamp(), finished_at = statement_timestamp()
    WHERE j.ctid = ANY (ARRAY(SELECT ctid FROM due))
    RETURNING
        j.id, j.queue, j.kind, j.payload, j.priority, j.scheduled_at, j.attempts, j.max_attempts,
        j.fence, j.created_at, j.job_key, j.headers, j.last_error
)
SELECT
    id, queue, kind, payload, priority, greatest(scheduled_at, '1970-01-01Z'), attempts, max_attempts,
    fence, least(greatest(created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(job_key, ''), headers,
    coalesce(left(last_error, 8192), '')
FROM taken;
