-- The open transaction that has locked job $1: its session (0 if it is prepared, and then its name), application, role,
-- state, for how many seconds it has been open (NULL if this role may not see that), and its number. xmax is the last
-- transaction that has locked or changed the row; while it is open, it holds the lock of its own number. For several
-- that share a lock see row_shares.sql.
SELECT
    coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.application_name, ''),
    coalesce(a.usename::text, p.owner::text, ''), coalesce(a.state, ''),
    extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8,
    j.xmax::text
FROM errand.jobs j
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = j.xmax AND l.mode = 'ExclusiveLock' AND l.granted
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON p.transaction = j.xmax
WHERE j.id = $1::bigint
