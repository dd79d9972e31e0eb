-- The roles that have a worker's rights, and from which row security may hide jobs. None if the table has none.
SELECT r.rolname::text
FROM pg_class c
CROSS JOIN pg_roles r
WHERE c.oid = 'errand.jobs'::regclass AND c.relrowsecurity
    AND NOT r.rolsuper AND NOT r.rolbypassrls AND r.rolname NOT LIKE 'pg\_%'
    AND (c.relforcerowsecurity OR NOT pg_has_role(r.oid, c.relowner, 'USAGE'))
    AND has_any_column_privilege(r.oid, c.oid, 'UPDATE')
    AND has_table_privilege(r.oid, 'errand.workers', 'INSERT')
ORDER BY 1
