-- Counts live, dead and cancelled jobs along their indexes: the pending ones of each queue up to ?1, and those of each
-- other status up to ?2 in all. A count that has reached its limit may be too low.
-- Index: errand_jobs_pending, errand_jobs_running, errand_jobs_dead, errand_jobs_held, errand_jobs_cancelled.
WITH RECURSIVE queues (queue) AS (
    SELECT min(j.queue) FROM errand_jobs AS j INDEXED BY errand_jobs_pending WHERE j.status = 'pending'
    UNION ALL
    SELECT (
        SELECT min(j.queue) FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.status = 'pending' AND j.queue > q.queue)
    FROM queues AS q
    WHERE q.queue IS NOT NULL
)
SELECT q.queue, 'pending', (
    SELECT count(*) FROM (
        SELECT 1 FROM errand_jobs AS j INDEXED BY errand_jobs_pending
        WHERE j.queue = q.queue AND j.status = 'pending'
        LIMIT ?1 + 0)) AS jobs
FROM queues AS q
WHERE q.queue IS NOT NULL
UNION ALL
SELECT queue, 'running', count(*)
FROM (SELECT queue FROM errand_jobs INDEXED BY errand_jobs_running WHERE status = 'running' LIMIT ?2 + 0)
GROUP BY queue
UNION ALL
SELECT queue, 'dead', count(*)
FROM (SELECT queue FROM errand_jobs INDEXED BY errand_jobs_dead WHERE status = 'dead' LIMIT ?2 + 0)
GROUP BY queue
UNION ALL
SELECT queue, 'held', count(*)
FROM (SELECT queue FROM errand_jobs INDEXED BY errand_jobs_held WHERE status = 'held' LIMIT ?2 + 0)
GROUP BY queue
UNION ALL
SELECT queue, 'cancelled', count(*)
FROM (SELECT queue FROM errand_jobs INDEXED BY errand_jobs_cancelled WHERE status = 'cancelled' LIMIT ?2 + 0)
GROUP BY queue;
