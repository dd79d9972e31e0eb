-- The settings that decide about safety, plans and time, as a session of this role and database begins.
SELECT name, coalesce(reset_val, '') FROM pg_settings
WHERE name IN (
    'autovacuum', 'track_counts', 'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names',
    'statement_timeout', 'transaction_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'plan_cache_mode'
) OR name LIKE 'enable\_%'
