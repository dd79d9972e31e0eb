-- Returns the queues with jobs that are due at ?1, and since when the oldest of each has been due. It leaps
-- along the index: one look-up for each queue and each of its priorities in use, however many jobs lie
-- between. It reads the 1,000 most urgent priorities of a queue, and 10,000 in all.
-- Index: errand_jobs_pending.
WITH RECURSIVE line (queue) AS (
    SELECT min(j.queue) FROM errand_jobs AS j INDEXED BY errand_jobs_pending WHERE j.status = 'pending'
    UNION ALL
    SELECT (
        SELECT min(j.queue) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.status = 'pending' AND j.queue > l.queue)
    FROM line AS l
    WHERE l.queue IS NOT NULL
    LIMIT 10000
), head (queue, priority, nth) AS (
    SELECT l.queue, (
        SELECT min(j.priority) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = l.queue AND j.status = 'pending'), 1
    FROM line AS l
    WHERE l.queue IS NOT NULL
    UNION ALL
    SELECT h.queue, (
        SELECT min(j.priority) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = h.queue AND j.status = 'pending' AND j.priority > h.priority), h.nth + 1
    FROM head AS h
    WHERE h.priority IS NOT NULL AND h.nth < 1000
    LIMIT 10000
)
SELECT h.queue, min((
    SELECT min(j.scheduled_at) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
    WHERE j.queue = h.queue AND j.status = 'pending' AND j.priority = h.priority)) AS since
FROM head AS h
WHERE h.priority IS NOT NULL
GROUP BY h.queue
HAVING since <= ?1
ORDER BY h.queue;
