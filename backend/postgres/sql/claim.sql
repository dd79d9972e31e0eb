-- Takes due jobs: $1 queues in priority order, $2 kinds or NULL for all, $3 limit, $4 lease in microseconds, $5 worker. A queue may
-- stand there several times, for several stretches of it: $6, $7 and $8 are the priority, due time and id to begin behind, which are
-- the lowest of all for its head, $10 the last priority, and $11 the last due time.
-- line is the first job of each priority, found by one look-up each, and no further than the limit needs. Each priority is walked
-- from there to its first job that is not due, so what is scheduled costs nothing. From the thousandth priority of a queue on, all
-- the rest is walked as one, with what is scheduled: so many look-ups would take longer.
-- Only rows that are returned get locked. The inner select runs once, as an init plan, so the limit holds whatever the plan; ctid is
-- safe, because the rows are locked in this very statement (one that moved before it was locked is merely not returned).
-- SKIP LOCKED does wait where a row is updated just then and its new version is locked by another transaction
-- (heap_lock_updated_tuple), such as a Settle that waits for a row that this statement has locked. So lock_timeout is a millisecond
-- while rows are being locked. Before they are changed it is what it was: that may have to wait while another makes the table longer.
-- many is one row that the planner takes for a million: without it, a planner that expects one pending job, or none, may read and
-- sort all there are instead of the first few, which the index has at hand. The limits of 100,000, at which no claim arrives, say that
-- they are few: of the real one the planner knows nothing, takes a tenth of everything for it, and may compile the plan for that.
-- Parameters that would change the estimates stand in (SELECT …): then a plan made for their values costs what one made for any
-- values does, and the server keeps the latter instead of planning anew each time, which takes longer than a small batch.
-- No time or number that a row may hold makes it fail: times before 1970 and after 9999, such as -infinity, which drivers cannot read, are
-- returned as those years. What can be long, or cannot be printed, are payloads and headers: they are returned only where they take at
-- most $9 bytes of the table. payload.sql reads the others one by one. Their lengths as text are not summed up here: it would make the
-- statement an eighth slower.
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
    updated_at = statement_timestamp()
WHERE j.ctid = ANY ((
    SELECT CASE WHEN set_config('lock_timeout', locked.timeout, true) <> '' THEN locked.ctids END
    FROM (
        SELECT usual.timeout, CASE WHEN set_config('lock_timeout', '1ms', true) <> '' THEN ARRAY(
            SELECT first.ctid FROM (
                SELECT due.ctid
                FROM unnest(
                    (SELECT $1::text::text[]), (SELECT $6::text::integer[]), (SELECT $7::text::timestamptz[]), (SELECT $8::text::bigint[]),
                    (SELECT $10::text::integer[]), (SELECT $11::text::timestamptz[])
                ) WITH ORDINALITY AS q (queue, priority, due, id, last, until, rank)
                CROSS JOIN LATERAL (
                    WITH RECURSIVE line (priority, due, id, n) AS (
                        (
                            SELECT f.priority, f.scheduled_at, f.id, 1
                            FROM errand.jobs f CROSS JOIN many
                            WHERE f.queue = q.queue AND f.status = 'pending'
                                AND (f.priority, f.scheduled_at, f.id) > (q.priority, q.due, q.id) AND f.priority <= q.last
                            ORDER BY f.priority, f.scheduled_at, f.id
                            LIMIT 1
                        )
                        UNION ALL
                        SELECT next.priority, next.scheduled_at, next.id, l.n + 1
                        FROM line l
                        CROSS JOIN LATERAL (
                            SELECT f.priority, f.scheduled_at, f.id
                            FROM errand.jobs f CROSS JOIN many
                            WHERE f.queue = q.queue AND f.status = 'pending' AND f.priority > l.priority AND f.priority <= q.last
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
                            AND (p.priority, p.scheduled_at, p.id) >= (line.priority, line.due, line.id) AND p.priority <= q.last
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
    CASE WHEN pg_column_size(j.payload) <= $9::bigint AND coalesce(pg_column_size(j.headers) <= $9::bigint, true) THEN j.payload END,
    j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts, j.fence,
    least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(j.job_key, ''),
    CASE WHEN pg_column_size(j.headers) <= $9::bigint THEN j.headers END, coalesce(left(j.last_error, 8192), '');
