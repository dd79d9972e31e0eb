-- Lists at most ?6 jobs with ids up to ?5, newest first: ?1 queue, ?2 kind, ?3 key, ?4 status, ?7 group, each NULL
-- for any, with ?8 attempts at least unless it is NULL, created from ?9 on and before ?10, finished from ?11 on and
-- before ?12, each NULL for no bound. When a job has finished is as in sqlkit.RunTimes. It reads the 50,000 newest jobs
-- up to ?5. If fewer than ?6 of these match, and older jobs follow, it returns one more row, whose id tells how far it
-- has read. The queue of that row is '', which no job has, and its other columns mean nothing.
-- Index: the ids are the table's own order.
WITH page AS MATERIALIZED (
    SELECT id AS number
    FROM (
        SELECT id, queue, kind, job_key, status, job_group, attempts, created_at, scheduled_at, finished_at, updated_at
        FROM errand_jobs NOT INDEXED
        WHERE id <= ?5 ORDER BY id DESC LIMIT 50000
    )
    WHERE (?1 IS NULL OR queue = ?1)
        AND (?2 IS NULL OR kind = ?2)
        AND (?3 IS NULL OR job_key = ?3)
        AND (?4 IS NULL OR status = ?4)
        AND (?7 IS NULL OR job_group = ?7)
        AND (?8 IS NULL OR attempts >= ?8)
        AND (?9 IS NULL OR created_at >= ?9)
        AND (?10 IS NULL OR created_at < ?10)
        AND (?11 IS NULL AND ?12 IS NULL OR status IN ('completed', 'dead', 'cancelled'))
        AND (?11 IS NULL OR iif(finished_at >= scheduled_at AND (finished_at <= updated_at OR status = 'completed'), finished_at, updated_at) >= ?11)
        AND (?12 IS NULL OR iif(finished_at >= scheduled_at AND (finished_at <= updated_at OR status = 'completed'), finished_at, updated_at) < ?12)
    ORDER BY id DESC
    LIMIT ?6 + 0
), stop AS MATERIALIZED (
    SELECT number
    FROM (SELECT id AS number FROM errand_jobs NOT INDEXED WHERE id <= ?5 ORDER BY id DESC LIMIT 1 OFFSET 49999)
    WHERE (SELECT count(*) FROM page) < ?6 + 0
)
SELECT
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, job_group, queue,
    fence, locked_by, status, locked_at, locked_until, updated_at, started_at, finished_at, redriven_at,
    coalesce(redrives, 0), cancel_at, NULL, coalesce(cost, 0)
FROM page CROSS JOIN errand_jobs NOT INDEXED
WHERE id = number
UNION ALL
SELECT number, '', 'null', 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, '', 0, NULL, '', NULL, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL, 0
FROM stop
ORDER BY id DESC;
