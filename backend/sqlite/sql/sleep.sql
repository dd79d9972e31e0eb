-- Returns the last id that was drawn, as seen.sql does, and when the next scheduled job is due after ?2, or
-- NULL. ?1 is the JSON array of the queues. It finds the priorities in use by skipping along the index: one
-- look-up each, at most a thousand.
-- Index: errand_jobs_pending.
WITH RECURSIVE line (queue, priority) AS (
    SELECT q.value, (
        SELECT min(j.priority) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = q.value AND j.status = 'pending')
    FROM json_each(?1) AS q
    UNION ALL
    SELECT l.queue, (
        SELECT min(j.priority) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = l.queue AND j.status = 'pending' AND j.priority > l.priority)
    FROM line AS l
    WHERE l.priority IS NOT NULL
    LIMIT 1000
)
SELECT
    (SELECT seq FROM sqlite_sequence WHERE name = 'errand_jobs' COLLATE NOCASE),
    min((
        SELECT min(j.scheduled_at) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = l.queue AND j.status = 'pending' AND j.priority = l.priority AND j.scheduled_at > ?2))
FROM line AS l
WHERE l.priority IS NOT NULL;
