-- Returns the last id that was drawn, as last_id.sql does, and when the next scheduled job is due after ?2, or
-- NULL, and when the next tick of a schedule comes, or NULL. ?1 is the JSON array of the queues. It finds the
-- priorities in use by skipping along the index: one look-up each, at most a thousand.
-- Index: errand_jobs_pending, errand_schedules_next.
WITH RECURSIVE priorities (queue, priority) AS (
    SELECT q.value, (
        SELECT min(j.priority) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = q.value AND j.status = 'pending')
    FROM json_each(?1) AS q
    UNION ALL
    SELECT p.queue, (
        SELECT min(j.priority) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = p.queue AND j.status = 'pending' AND j.priority > p.priority)
    FROM priorities AS p
    WHERE p.priority IS NOT NULL
    LIMIT 1000
)
SELECT
    (SELECT seq FROM sqlite_sequence WHERE name = 'errand_jobs' COLLATE NOCASE),
    min((
        SELECT min(j.scheduled_at) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = p.queue AND j.status = 'pending' AND j.priority = p.priority AND j.scheduled_at > ?2)),
    (SELECT next_at FROM errand_schedules INDEXED BY errand_schedules_next WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1)
FROM priorities AS p
WHERE p.priority IS NOT NULL;
