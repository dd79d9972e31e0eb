-- Lists jobs, newest first, for a filter that no index serves, or that chooses dead, held or cancelled jobs: $1 queue,
-- $2 kind, $3 key, $6 status, $7 group, each NULL for any, with ids up to $4, $5 at most, with $8 attempts at least
-- unless it is NULL, created from $9 on and before $10, finished from $11 on and before $12, each NULL for no bound,
-- with payloads and headers if $13. It looks at the 50,000 newest jobs up to $4; for these statuses the program makes
-- it look at the 50,000 newest ones of the status, of queue $1 and of kind $2. If fewer than $5 of them match and other
-- jobs follow, the last row tells the id at which it stopped. That row's status is '', which no job has, and its other
-- columns mean nothing. Times are shown as in list.sql. many is as in few_pending.sql.
-- Index: jobs_pkey, jobs_stopped_id_idx.
WITH many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
), stop AS MATERIALIZED (
    SELECT id FROM errand.jobs CROSS JOIN many
    WHERE id <= $4::bigint
    ORDER BY id DESC OFFSET 49999 LIMIT 1
), page AS MATERIALIZED (
    SELECT
        id, queue, kind, CASE WHEN $13::boolean THEN payload END, priority,
        least(greatest(scheduled_at, '1970-01-01Z'), '9999-12-31Z'), attempts, max_attempts,
        greatest(fence, 0), least(greatest(created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(job_key, ''),
        CASE WHEN $13::boolean THEN headers END, coalesce(left(last_error, 8192), ''), coalesce(job_group, ''),
        coalesce(locked_by, ''), status::text,
        CASE WHEN locked_at IS NOT NULL THEN least(greatest(locked_at, '1970-01-01Z'), '9999-12-31Z') END,
        CASE WHEN locked_until IS NOT NULL THEN least(greatest(locked_until, '1970-01-01Z'), '9999-12-31Z') END,
        least(greatest(updated_at, '1970-01-01Z'), '9999-12-31Z'),
        CASE WHEN started_at IS NOT NULL THEN least(greatest(started_at, '1970-01-01Z'), '9999-12-31Z') END,
        CASE WHEN finished_at IS NOT NULL THEN least(greatest(finished_at, '1970-01-01Z'), '9999-12-31Z') END,
        CASE WHEN redriven_at IS NOT NULL THEN least(greatest(redriven_at, '1970-01-01Z'), '9999-12-31Z') END,
        coalesce(redrives, 0),
        CASE WHEN cancel_at IS NOT NULL THEN least(greatest(cancel_at, '1970-01-01Z'), '9999-12-31Z') END,
        NULL::jsonb, coalesce(cost, 0)
    FROM (
        SELECT
            payload, headers,
            id, queue, kind, status, priority, scheduled_at, attempts, max_attempts, job_key, last_error, locked_at,
            locked_by, locked_until, fence, created_at, updated_at, started_at, finished_at, redriven_at, redrives,
            job_group, cancel_at, cost
        FROM errand.jobs CROSS JOIN many
        WHERE id <= $4::bigint
        ORDER BY id DESC
        LIMIT 50000
    ) AS slice
    WHERE ($1::text IS NULL OR queue = $1::text)
        AND ($2::text IS NULL OR kind = $2::text)
        AND ($3::text IS NULL OR job_key = $3::text)
        AND ($6::text IS NULL OR status::text = $6::text)
        AND ($7::text IS NULL OR job_group = $7::text)
        AND ($8::integer IS NULL OR attempts >= $8::integer)
        AND ($9::timestamptz IS NULL OR created_at >= $9::timestamptz)
        AND ($10::timestamptz IS NULL OR created_at < $10::timestamptz)
        AND ($11::timestamptz IS NULL AND $12::timestamptz IS NULL OR status IN ('completed', 'dead', 'cancelled'))
        AND ($11::timestamptz IS NULL
            OR CASE WHEN finished_at >= scheduled_at AND (finished_at <= updated_at OR status = 'completed')
                THEN finished_at ELSE updated_at END >= $11::timestamptz)
        AND ($12::timestamptz IS NULL
            OR CASE WHEN finished_at >= scheduled_at AND (finished_at <= updated_at OR status = 'completed')
                THEN finished_at ELSE updated_at END < $12::timestamptz)
    ORDER BY id DESC
    LIMIT $5::integer
)
SELECT * FROM page
UNION ALL
SELECT
    stop.id, '', '', NULL, 0, '1970-01-01Z', 0, 0, 0, '1970-01-01Z', '', NULL, '', '', '', '', NULL, NULL, '1970-01-01Z',
    NULL, NULL, NULL, 0, NULL, NULL, 0
FROM stop
WHERE (SELECT count(*) FROM page) < $5::integer;
