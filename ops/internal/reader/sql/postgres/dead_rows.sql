-- How many dead rows VACUUM has not removed yet, and for how many seconds none has ended; NULL for never.
SELECT
    n_dead_tup, n_live_tup, extract(epoch FROM clock_timestamp() - greatest(last_vacuum, last_autovacuum))::float8,
    EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.relid = s.relid)
FROM pg_stat_all_tables s WHERE relid = 'errand.jobs'::regclass
