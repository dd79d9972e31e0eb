-- How many connections there may be, and are: to the server, of this role and to this database. Below 0: no limit.
SELECT
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
        - coalesce(current_setting('reserved_connections', true)::integer, 0),
    (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database WHERE datid <> 0),
    (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
    (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user),
    (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
    (SELECT numbackends FROM pg_stat_database WHERE datname = current_database())
