-- The transactions that have locked one of errand's tables against writes, or wait to do so: statements that write wait
-- behind both. The columns are those of row_lock.sql; then the table, and whether the lock is also against reads. The
-- table of jobs comes first.
SELECT
    coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.application_name, ''),
    coalesce(a.usename::text, p.owner::text, ''), coalesce(a.state, ''),
    extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8,
    coalesce(l.virtualtransaction, ''), c.relname::text, l.mode = 'AccessExclusiveLock'
FROM pg_locks l
JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r'
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'errand'
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN (
    pg_locks x JOIN pg_prepared_xacts p ON x.locktype = 'transactionid' AND x.transactionid = p.transaction
) ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
WHERE l.locktype = 'relation' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
ORDER BY c.relname <> 'jobs', 6 DESC NULLS LAST
