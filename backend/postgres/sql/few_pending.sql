-- Reports whether there are fewer than 10,000 pending jobs, of queue $1 or NULL for all. It looks at no more.
-- many is as in sleep.sql: without it, the plan for a few jobs where a long backlog was worked off costs so much that
-- the server compiles it.
-- Index: jobs_pending_idx.
WITH many AS MATERIALIZED (
    SELECT FROM generate_series(1, (SELECT 1)) AS a CROSS JOIN generate_series(1, (SELECT 1)) AS b
)
SELECT count(*) < 10000
FROM (
    SELECT FROM errand.jobs j CROSS JOIN many
    WHERE j.status = 'pending' AND ($1::text IS NULL OR j.queue = $1::text)
    LIMIT 10000
) AS found;
