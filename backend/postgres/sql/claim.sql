-- Claims due jobs: $1 queues in priority order, $2 kinds or NULL for all, $3 limit, $4 lease in microseconds, $5
-- worker. A queue may occur several times in $1, once for each stretch of it: $6, $7 and $8 are the priority, due time
-- and id behind which a stretch begins (the lowest of all for the queue's head), $10 is its last priority, and $11 its
-- last due time.
-- line is the first job of each priority. One look-up finds each, and there are no more look-ups than the limit needs.
-- Each priority is scanned from there to its first job that is not due, so scheduled jobs cost nothing. From a queue's
-- thousandth priority on, the rest is scanned as one, scheduled jobs included: so many look-ups would take longer.
-- Only rows that are returned get locked. The inner SELECT runs once, as an init plan, so the limit holds with any
-- plan. ctid is safe, because this statement locks the rows: a row that moved before it was locked is not returned.
-- SKIP LOCKED does wait in one case (heap_lock_updated_tuple): a row is just being updated, and another transaction has
-- locked its new version, such as a Settle that waits for a row that this statement has locked. So lock_timeout is a
-- millisecond while rows are being locked. It is set back before they are changed, because that may have to wait while
-- another transaction makes the table longer.
-- many is one row that the planner takes for a million. Without it, a planner that expects one pending job or none may
-- read and sort all of them, instead of the first few in the order of the index. No claim reaches the limits of
-- 100,000. They tell the planner that rows are few: it does not know the real limit, would assume a tenth of all rows,
-- and might compile the plan (JIT) for that.
-- Parameters that would change the estimates stand in (SELECT …). Then a plan for their values costs what a generic
-- plan costs, and the server keeps the generic plan. Planning again would take longer than a small batch.
-- No time or number in a row makes the statement fail. Times before 1970 and after 9999, such as -infinity, are
-- returned as those years, because drivers cannot read them. Payloads and headers may be long, or impossible to print.
-- They are returned only if they take at most $9 bytes in the table; payload.sql reads the others one by one. Adding up
-- their lengths as text would make the statement an eighth slower.
-- Index: jobs_pending_idx.
WITH many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
)
UPDATE errand.jobs AS j
SET
    status = 'running',
    attempts = least(j.attempts, 1999999999) + 1,
    fence = (SELECT nextval('errand.fences')),
    locked_at = statement_timestamp(),
    locked_by = $5::text,
    locked_until = statement_timestamp() + $4::bigint * interval '1 microsecond',
    updated_at = statement_timestamp(),
    started_at = statement_timestamp(),
    finished_at = NULL
WHERE j.ctid = ANY ((
    SELECT CASE WHEN set_config('lock_timeout', locked.timeout, true) <> '' THEN locked.ctids END
    FROM (
        SELECT usual.timeout, CASE WHEN set_config('lock_timeout', '1ms', true) <> '' THEN ARRAY(
            SELECT first.ctid FROM (
                SELECT due.ctid
                FROM unnest(
                    (SELECT $1::text::text[]), (SELECT $6::text::integer[]), (SELECT $7::text::timestamptz[]),
                    (SELECT $8::text::bigint[]),
                    (SELECT $10::text::integer[]), (SELECT $11::text::timestamptz[])
                ) WITH ORDINALITY AS q (queue, priority, due, id, last, until, rank)
                CROSS JOIN LATERAL (
                    WITH RECURSIVE line (priority, due, id, n) AS (
                        (
                            SELECT f.priority, f.scheduled_at, f.id, 1
                            FROM errand.jobs f CROSS JOIN many
                            WHERE f.queue = q.queue AND f.status = 'pending'
                                AND (f.priority, f.scheduled_at, f.id) > (q.priority, q.due, q.id)
                                AND f.priority <= q.last
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
                                AND f.priority <= q.last
                            ORDER BY f.priority, f.scheduled_at, f.id
                            LIMIT 1
                        ) AS next
                        WHERE l.n < 1000 AND l.priority < q.last
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
                            AND p.scheduled_at <= least(statement_timestamp(), q.until)
                            AND (p.scheduled_at, p.id) >= (line.due, line.id)
                            AND ((SELECT $2::text) IS NULL OR p.kind = ANY ((SELECT $2::text::text[])::text[]))
                        ORDER BY p.priority, p.scheduled_at, p.id
                        LIMIT 100000
                        FOR UPDATE OF p SKIP LOCKED
                    ) AS one
                    UNION ALL
                    SELECT rest.ctid FROM (
                        SELECT p.ctid
                        FROM errand.jobs p CROSS JOIN many
                        WHERE line.n = 1000
                            AND p.queue = q.queue
                            AND p.status = 'pending'
                            AND p.scheduled_at <= least(statement_timestamp(), q.until)
                            AND (p.priority, p.scheduled_at, p.id) >= (line.priority, line.due, line.id)
                            AND p.priority <= q.last
                            AND ((SELECT $2::text) IS NULL OR p.kind = ANY ((SELECT $2::text::text[])::text[]))
                        ORDER BY p.priority, p.scheduled_at, p.id
                        LIMIT 100000
                        FOR UPDATE OF p SKIP LOCKED
                    ) AS rest
                ) AS due
                LIMIT 100000
            ) AS first
            LIMIT (SELECT $3::integer)
        ) END AS ctids
        FROM (SELECT current_setting('lock_timeout') AS timeout OFFSET 0) AS usual
        OFFSET 0
    ) AS locked
)::tid[])
RETURNING
    j.id, j.queue, j.kind,
    CASE WHEN pg_column_size(j.payload) <= $9::bigint AND coalesce(pg_column_size(j.headers) <= $9::bigint, true)
        THEN j.payload END,
    j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts, j.fence,
    least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(j.job_key, ''),
    CASE WHEN pg_column_size(j.headers) <= $9::bigint THEN j.headers END, coalesce(left(j.last_error, 8192), '');
