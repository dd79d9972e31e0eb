-- The open transactions that share a lock of job $1, as a foreign key's check does. xmax is then the number of their
-- group. The columns are those of row_lock.sql. If xmax is the number of a transaction, the statement may fail with
-- XX000, because there is no such group.
SELECT
    coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.application_name, ''),
    coalesce(a.usename::text, p.owner::text, ''), coalesce(a.state, ''),
    extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, p.prepared))::float8,
    m.xid::text
FROM errand.jobs j
CROSS JOIN LATERAL pg_get_multixact_members(nullif(j.xmax::text, '0')::xid) AS m
JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = m.xid AND l.mode = 'ExclusiveLock' AND l.granted
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON p.transaction = m.xid
WHERE j.id = $1::bigint
ORDER BY 6 DESC NULLS LAST LIMIT 3
