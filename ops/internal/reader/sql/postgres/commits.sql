-- The sessions of this database whose commits have waited for a synchronous standby for a second, the longest wait
-- first. A role without pg_read_all_stats sees only its own sessions.
SELECT pid, '', coalesce(application_name, ''), coalesce(usename::text, ''), '',
    extract(epoch FROM clock_timestamp() - query_start)::float8, query_start::text
FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '1 second'
ORDER BY query_start LIMIT 1000
