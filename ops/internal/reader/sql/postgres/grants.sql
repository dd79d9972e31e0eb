-- The rights in the schema that somebody has who does not own the object: role, object and right. PUBLIC is left out.
SELECT pg_get_userbyid(g.grantee)::text, g.object, g.privilege_type
FROM (
    SELECT n.nspowner AS owner, 'the schema' AS object, a.grantee, a.privilege_type
    FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
    WHERE n.oid = 'errand'::regnamespace
    UNION ALL
    SELECT
        c.relowner, CASE c.relkind WHEN 'S' THEN 'the sequence ' ELSE 'the table ' END || c.relname,
        a.grantee, a.privilege_type
    FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
    WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind IN ('r', 'S')
    UNION ALL
    SELECT c.relowner, 'the column ' || c.relname || '.' || t.attname, a.grantee, a.privilege_type
    FROM pg_class c
    JOIN pg_attribute t ON t.attrelid = c.oid AND NOT t.attisdropped
    CROSS JOIN LATERAL aclexplode(t.attacl) AS a
    WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r'
    UNION ALL
    SELECT p.proowner, 'the function ' || p.proname, a.grantee, a.privilege_type
    FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) AS a
    WHERE p.pronamespace = 'errand'::regnamespace
) AS g
WHERE g.grantee <> 0 AND g.grantee <> g.owner
ORDER BY 1, 2, 3
