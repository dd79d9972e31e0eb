-- Counts the jobs of a long table: pending ones along their index, exactly up to 10,000 a queue; running, dead, held
-- and cancelled ones likewise, exactly up to 10,000 of all queues; the others by proportion, from a sample of $1
-- percent of the table's pages. line is the first pending job of each queue. Counting begins there: the index may have
-- millions of entries of jobs that were claimed before it, and one pass over them is enough. $1 is a parameter of its
-- own, because the planner takes an expression for 10 percent. The plan for that may cost so much that the server
-- compiles it, which takes longer than counting. many is as in sleep.sql, for the same reason: where a long backlog was
-- worked off, the planner expects that each look-up reads most of the index for the few jobs that are left.
-- Index: jobs_pending_idx, jobs_running_idx, jobs_stopped_id_idx.
WITH RECURSIVE many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
), line (queue, priority, scheduled_at, id) AS (
    (
        SELECT j.queue, j.priority, j.scheduled_at, j.id FROM errand.jobs j CROSS JOIN many
        WHERE j.status = 'pending'
        ORDER BY j.queue, j.priority, j.scheduled_at, j.id LIMIT 1
    )
    UNION ALL
    SELECT n.queue, n.priority, n.scheduled_at, n.id
    FROM line l
    CROSS JOIN LATERAL (
        SELECT j.queue, j.priority, j.scheduled_at, j.id FROM errand.jobs j CROSS JOIN many
        WHERE j.status = 'pending' AND j.queue > l.queue
        ORDER BY j.queue, j.priority, j.scheduled_at, j.id LIMIT 1
    ) AS n
), few AS (
    SELECT l.queue, 'pending' AS status, n.jobs, n.jobs < 10000 AS exact
    FROM line l CROSS JOIN LATERAL (
        SELECT count(*) AS jobs
        FROM (
            SELECT FROM errand.jobs j CROSS JOIN many
            WHERE j.queue = l.queue AND j.status = 'pending'
                AND (j.priority, j.scheduled_at, j.id) >= (l.priority, l.scheduled_at, l.id)
            LIMIT 10000
        ) AS p
    ) AS n
    UNION ALL
    SELECT queue, 'running', count(*), sum(count(*)) OVER () < 10000
    FROM (SELECT queue FROM errand.jobs WHERE status = 'running' LIMIT 10000) AS r GROUP BY queue
    UNION ALL
    SELECT queue, 'dead', count(*), sum(count(*)) OVER () < 10000
    FROM (SELECT queue FROM errand.jobs WHERE status = 'dead' LIMIT 10000) AS d GROUP BY queue
    UNION ALL
    SELECT queue, 'held', count(*), sum(count(*)) OVER () < 10000
    FROM (SELECT queue FROM errand.jobs WHERE status = 'held' LIMIT 10000) AS h GROUP BY queue
    UNION ALL
    SELECT queue, 'cancelled', count(*), sum(count(*)) OVER () < 10000
    FROM (SELECT queue FROM errand.jobs WHERE status = 'cancelled' LIMIT 10000) AS x GROUP BY queue
), sample AS (
    SELECT queue, status::text AS status, (count(*) * 100 / $1::float8)::bigint AS jobs
    FROM errand.jobs TABLESAMPLE SYSTEM ($1::float8)
    GROUP BY queue, status
)
SELECT queue, status, CASE WHEN few.exact THEN few.jobs ELSE greatest(few.jobs, sample.jobs) END,
    coalesce(few.exact, false)
FROM few FULL JOIN sample USING (queue, status)
WHERE few.queue IS NOT NULL OR status IN ('completed', 'failed')
    OR status IN (SELECT DISTINCT f.status FROM few f WHERE NOT f.exact)
ORDER BY queue, status::errand.job_status;
