-- The timeouts that other roles of workers begin their sessions with. What this role has is in the settings.
SELECT r.rolname::text, split_part(c.text, '=', 1), split_part(c.text, '=', 2)
FROM pg_db_role_setting s
CROSS JOIN LATERAL unnest(s.setconfig) AS c (text)
JOIN pg_roles r ON r.oid = s.setrole
WHERE (s.setdatabase = 0 OR s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()))
    AND split_part(c.text, '=', 1) IN ('statement_timeout', 'transaction_timeout')
    AND r.rolname <> session_user AND r.rolcanlogin AND NOT r.rolsuper
    AND has_table_privilege(r.oid, to_regclass('errand.workers'), 'INSERT')
ORDER BY 1, s.setdatabase, 2
