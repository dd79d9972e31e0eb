-- Where default_transaction_read_only is turned on for this database: the role, '' for all, and the database, '' for
-- all. Only this role and roles that may change jobs count. Both are '' for the server's own configuration.
SELECT coalesce(r.rolname::text, ''), coalesce(d.datname::text, '')
FROM pg_db_role_setting s
CROSS JOIN LATERAL unnest(s.setconfig) AS c (text)
LEFT JOIN pg_roles r ON r.oid = s.setrole
LEFT JOIN pg_database d ON d.oid = s.setdatabase
WHERE (s.setdatabase = 0 OR d.datname = current_database())
    AND split_part(c.text, '=', 1) = 'default_transaction_read_only'
    AND lower(split_part(c.text, '=', 2)) NOT IN ('off', 'of', 'false', 'fals', 'fal', 'fa', 'f', 'no', 'n', '0')
    AND (s.setrole = 0 OR r.rolname = session_user
        OR r.rolcanlogin AND NOT r.rolsuper AND has_any_column_privilege(r.oid, to_regclass('errand.jobs'), 'UPDATE'))
UNION ALL
SELECT '', '' FROM pg_settings
WHERE name = 'default_transaction_read_only' AND reset_val = 'on'
    AND source NOT IN ('database', 'user', 'database user', 'client', 'session')
ORDER BY 1, 2
