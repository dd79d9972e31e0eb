-- The sessions for which others that use errand's tables have waited for a second, for a role that may not see what
-- other roles' sessions do: every role may see locks. The columns are those of waits.sql, but the sixth is for how many
-- seconds the session that has waited longest has waited. From PostgreSQL 14 on.
WITH users AS MATERIALIZED (
    SELECT l.pid, l.mode FROM pg_locks l
    JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r'
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'errand'
    WHERE l.locktype = 'relation' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
), waiting AS MATERIALIZED (
    SELECT w.pid, min(w.waitstart) AS since FROM pg_locks w
    WHERE NOT w.granted AND w.waitstart < clock_timestamp() - interval '1 second' AND w.pid IN (SELECT pid FROM users)
    GROUP BY w.pid
)
SELECT
    b.pid, '', coalesce(a.application_name, ''), coalesce(a.usename::text, ''), '',
    extract(epoch FROM clock_timestamp() - min(waiting.since))::float8, '', count(*)
FROM waiting
CROSS JOIN LATERAL (SELECT DISTINCT unnest(pg_blocking_pids(waiting.pid)) AS pid) AS b
LEFT JOIN pg_stat_activity a ON a.pid = b.pid
WHERE b.pid IN (SELECT pid FROM users WHERE mode <> 'AccessShareLock')
GROUP BY b.pid, a.application_name, a.usename
ORDER BY 6 DESC LIMIT 5
