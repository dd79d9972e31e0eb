-- Lists at most ?5 pending jobs with ids up to ?4, newest first, as list.sql does, but without its parameter for the
-- status. For another status that has an index, Jobs replaces the word pending by its name. It reads only jobs of that
-- status. If ?6 is not NULL, it lists only jobs whose leases have expired at ?6. If ?7 is not NULL, it lists only jobs
-- whose runs had begun at ?7; when a run began is as in sqlkit.RunTimes. ?8 is the group, NULL for any, and ?9 the
-- number of attempts at least. The jobs were created from ?10 on and before ?11, and finished from ?12 on and before
-- ?13, each NULL for no bound. When a job has finished is as in sqlkit.RunTimes.
-- Index: errand_jobs_pending; errand_jobs_running, errand_jobs_dead, errand_jobs_held, errand_jobs_cancelled.
WITH page AS MATERIALIZED (
    SELECT id AS number
    FROM errand_jobs INDEXED BY errand_jobs_pending
    WHERE status = 'pending'
        AND (?1 IS NULL OR queue = ?1)
        AND (?2 IS NULL OR kind = ?2)
        AND (?3 IS NULL OR job_key = ?3)
        AND (?8 IS NULL OR job_group = ?8)
        AND (?9 IS NULL OR attempts >= ?9)
        AND (?6 IS NULL OR locked_until < ?6)
        AND id <= ?4
        AND (?7 IS NULL OR iif(locked_until > locked_at AND started_at IS NOT NULL, started_at, updated_at) <= ?7)
        AND (?10 IS NULL OR created_at >= ?10)
        AND (?11 IS NULL OR created_at < ?11)
        AND (?12 IS NULL OR iif(finished_at BETWEEN scheduled_at AND updated_at, finished_at, updated_at) >= ?12)
        AND (?13 IS NULL OR iif(finished_at BETWEEN scheduled_at AND updated_at, finished_at, updated_at) < ?13)
    ORDER BY id DESC
    LIMIT ?5 + 0
)
SELECT
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, job_group, queue,
    fence, locked_by, status, locked_at, locked_until, updated_at, started_at, finished_at, redriven_at,
    coalesce(redrives, 0), cancel_at, NULL, coalesce(cost, 0)
FROM page CROSS JOIN errand_jobs NOT INDEXED
WHERE id = number
ORDER BY id DESC;
