-- Which server this is, whether it can be written to, and whether the role sees the sessions of other roles.
SELECT
    current_setting('server_version'), current_setting('server_version_num')::integer, pg_is_in_recovery(),
    current_setting('default_transaction_read_only') = 'on', quote_ident(current_user),
    pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), clock_timestamp(), current_database()::text
