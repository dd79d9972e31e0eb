-- What keeps VACUUM from removing dead rows of the jobs table: sessions with a snapshot or a transaction number,
-- prepared transactions, replication slots and standbys. A slot's catalog_xmin keeps only rows of catalogs.
-- holder, its name, how many transaction numbers ago it began, for how many seconds it has lasted (NULL if not known),
-- and for sessions their application, role and state.
SELECT * FROM (
    SELECT
        'session' AS holder, pid::text AS name, greatest(age(backend_xmin), age(backend_xid)) AS xids,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS held,
        coalesce(application_name, '') AS application, coalesce(usename::text, '') AS role, coalesce(state, '') AS state
    FROM pg_stat_activity
    WHERE coalesce(backend_xmin, backend_xid) IS NOT NULL AND pid <> pg_backend_pid() AND backend_type <> 'walsender'
        AND datname = current_database()
        AND coalesce(query, '') NOT LIKE 'autovacuum: VACUUM%' -- the server does not wait for them
    UNION ALL
    SELECT
        'prepared', gid, age(transaction), extract(epoch FROM clock_timestamp() - prepared)::float8, '', owner::text, ''
    FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT 'slot', slot_name::text, age(xmin), NULL, '', '', CASE WHEN active THEN 'active' ELSE 'inactive' END
    FROM pg_replication_slots WHERE xmin IS NOT NULL
    UNION ALL
    SELECT 'standby', coalesce(application_name, ''), age(backend_xmin), NULL, coalesce(client_addr::text, ''),
        coalesce(usename::text, ''), coalesce(state, '')
    FROM pg_stat_replication WHERE backend_xmin IS NOT NULL
) AS h ORDER BY held DESC NULLS LAST, xids DESC LIMIT 5
