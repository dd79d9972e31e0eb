-- Returns the last id that was drawn, as seen.sql does, and the time at which the next scheduled job of the queues in the JSON array ?1
-- is due after ?2, or NULL. The priorities in use are found by skipping along the index, one look-up each, a thousand at most.
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
