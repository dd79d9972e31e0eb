-- The open transaction that has locked job $1. xmax is the last transaction that has locked or changed the row; while
-- it is open, it holds the lock of its own number. Of several that share a lock, xmax names none.
SELECT
    coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.application_name, ''),
    coalesce(a.usename::text, p.owner::text, ''), coalesce(a.state, ''),
    coalesce(extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared)), 0)::float8
FROM errand.jobs j
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = j.xmax AND l.mode = 'ExclusiveLock' AND l.granted
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON p.transaction = j.xmax
WHERE j.id = $1::bigint
