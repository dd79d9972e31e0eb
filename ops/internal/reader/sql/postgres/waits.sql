-- The transactions that have locked errand's tables, or rows of them, while other sessions wait for them: the columns
-- are those of row_lock.sql; then how many sessions wait.
WITH tables AS MATERIALIZED (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'errand' AND c.relkind = 'r'
)
SELECT
    a.pid, '', coalesce(a.application_name, ''), coalesce(a.usename::text, ''), coalesce(a.state, ''),
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8, '',
    (SELECT count(*) FROM pg_stat_activity w WHERE w.wait_event_type = 'Lock' AND a.pid = ANY (pg_blocking_pids(w.pid)))
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
    AND EXISTS (
        SELECT FROM pg_locks l
        WHERE l.pid = a.pid AND l.locktype = 'relation' AND l.relation IN (SELECT oid FROM tables) AND l.granted
            AND l.mode <> 'AccessShareLock')
    AND EXISTS (
        SELECT FROM pg_stat_activity w WHERE w.wait_event_type = 'Lock' AND a.pid = ANY (pg_blocking_pids(w.pid)))
ORDER BY 6 DESC LIMIT 5
