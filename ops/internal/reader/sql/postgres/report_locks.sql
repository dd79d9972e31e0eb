-- The transactions for which reports of workers may wait: they have locked a table that reports write, or rows of it,
-- or wait to lock the whole of it. Those come first for which a session waits that uses such a table, and then the
-- oldest. The columns are those of row_lock.sql; then the table that is locked as a whole, or '', and whether a session
-- waits.
WITH users AS MATERIALIZED (
    SELECT
        l.pid, l.virtualtransaction, l.granted, c.relname::text AS relation,
        l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') AS is_whole
    FROM pg_locks l
    JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r' AND c.relname IN ('workers', 'stats')
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'errand'
    WHERE l.locktype = 'relation' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND l.mode <> 'AccessShareLock'
), blockers AS MATERIALIZED (
    SELECT DISTINCT unnest(pg_blocking_pids(w.pid)) AS pid
    FROM (SELECT pid FROM users INTERSECT SELECT pid FROM pg_locks WHERE NOT granted) AS w
)
SELECT DISTINCT
    coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.application_name, ''),
    coalesce(a.usename::text, p.owner::text, ''), coalesce(a.state, ''),
    extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8,
    coalesce(l.virtualtransaction, ''), CASE WHEN l.is_whole THEN l.relation ELSE '' END,
    coalesce(l.pid, 0) IN (SELECT pid FROM blockers)
FROM users l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN (
    pg_locks x JOIN pg_prepared_xacts p ON x.locktype = 'transactionid' AND x.transactionid = p.transaction
) ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
WHERE l.granted OR l.is_whole
ORDER BY 9 DESC, 6 DESC NULLS LAST LIMIT 10
