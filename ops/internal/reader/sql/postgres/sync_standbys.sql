-- How many synchronous standbys are connected.
SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')
