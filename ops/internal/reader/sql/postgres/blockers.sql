-- The transactions that session $1 waits for, and those that these wait for: the last of the chain first, which waits
-- for none. The columns are those of row_lock.sql, and whether the transaction waits itself. A prepared transaction has
-- no session: it is found by what the session that waits for it waits for.
WITH RECURSIVE chain AS (
    SELECT $1::integer AS pid, 0 AS waiter, 0 AS depth
    UNION
    SELECT b.pid, chain.pid, chain.depth + 1
    FROM chain CROSS JOIN LATERAL unnest(pg_blocking_pids(chain.pid)) AS b (pid)
    WHERE chain.pid > 0 AND chain.depth < 5
), blocker AS (
    SELECT pid, waiter, max(depth) AS depth FROM chain WHERE depth > 0 GROUP BY pid, waiter
), prepared AS (
    SELECT b.depth, p.*
    FROM blocker b
    JOIN pg_locks w ON w.pid = b.waiter AND NOT w.granted
    JOIN pg_locks h ON h.pid IS NULL AND h.granted AND h.locktype = w.locktype
        AND h.database IS NOT DISTINCT FROM w.database AND h.relation IS NOT DISTINCT FROM w.relation
        AND h.transactionid IS NOT DISTINCT FROM w.transactionid
    JOIN pg_locks x ON x.pid IS NULL AND x.locktype = 'transactionid' AND x.virtualtransaction = h.virtualtransaction
    JOIN pg_prepared_xacts p ON p.transaction = x.transactionid
    WHERE b.pid = 0
), found AS (
    SELECT
        b.pid, '' AS prepared, coalesce(a.application_name, '') AS application, coalesce(a.usename::text, '') AS role,
        coalesce(a.state, '') AS state, extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS open,
        '' AS transaction, b.depth
    FROM blocker b LEFT JOIN pg_stat_activity a ON a.pid = b.pid
    WHERE b.pid > 0
    UNION ALL
    SELECT 0, gid, '', owner::text, '', extract(epoch FROM clock_timestamp() - prepared)::float8, transaction::text, depth
    FROM prepared
)
SELECT pid, prepared, application, role, state, open, transaction, pid > 0 AND pid IN (SELECT waiter FROM blocker)
FROM (SELECT DISTINCT ON (pid, prepared) * FROM found ORDER BY pid, prepared, depth DESC) AS f
ORDER BY depth DESC, open DESC NULLS LAST LIMIT 3
