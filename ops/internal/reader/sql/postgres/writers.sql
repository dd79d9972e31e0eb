-- The open transactions that have written to errand's table $1, or if $2 have at least locked rows of it, the oldest
-- first. The columns are those of row_lock.sql.
SELECT DISTINCT
    coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.application_name, ''),
    coalesce(a.usename::text, p.owner::text, ''), coalesce(a.state, ''),
    extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8,
    coalesce(l.virtualtransaction, '')
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN (
    pg_locks x JOIN pg_prepared_xacts p ON x.locktype = 'transactionid' AND x.transactionid = p.transaction
) ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
WHERE l.locktype = 'relation' AND l.granted
    AND l.relation = (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'errand' AND c.relname = $1::text)
    AND (l.mode = 'RowExclusiveLock' OR $2::boolean AND l.mode = 'RowShareLock')
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY 6 DESC NULLS LAST LIMIT 5
