-- Returns the queues with jobs that are due at ?1, and since when the oldest of each has been due. It skips
-- along the index, with one look-up for each queue and each of its priorities in use, and passes over all
-- other jobs. It reads the 1,000 most urgent priorities of a queue, and 10,000 in all.
-- Index: errand_jobs_pending.
WITH RECURSIVE queues (queue) AS (
    SELECT min(j.queue) FROM errand_jobs AS j INDEXED BY errand_jobs_pending WHERE j.status = 'pending'
    UNION ALL
    SELECT (
        SELECT min(j.queue) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.status = 'pending' AND j.queue > q.queue)
    FROM queues AS q
    WHERE q.queue IS NOT NULL
    LIMIT 10000
), priorities (queue, priority, nth) AS (
    SELECT q.queue, (
        SELECT min(j.priority) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = q.queue AND j.status = 'pending'), 1
    FROM queues AS q
    WHERE q.queue IS NOT NULL
    UNION ALL
    SELECT p.queue, (
        SELECT min(j.priority) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = p.queue AND j.status = 'pending' AND j.priority > p.priority), p.nth + 1
    FROM priorities AS p
    WHERE p.priority IS NOT NULL AND p.nth < 1000
    LIMIT 10000
)
SELECT p.queue, min((
    SELECT min(j.scheduled_at) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
    WHERE j.queue = p.queue AND j.status = 'pending' AND j.priority = p.priority)) AS since
FROM priorities AS p
WHERE p.priority IS NOT NULL
GROUP BY p.queue
HAVING since <= ?1
ORDER BY p.queue;
