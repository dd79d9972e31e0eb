-- The roles that may log in and are no superusers, and which rights each lacks of those that a worker needs: $1 is a
-- JSON array of rights, with the object's kind, its name, a column, and the right. Returns the role, what it lacks as a
-- JSON array of their texts, and whether it looks as if workers should have it: it has rights that only they need; or
-- it may not even use the schema, and has a session here that looks like errand's, and no other schema of errand's to
-- work in. Left out are roles that write all tables, and those that may become a role that lacks nothing: SET ROLE, or
-- ?role= in the URL, takes no inheritance. Last, the role of docs/roles.sql for workers, by its name or the end of it,
-- of which this one is a member or is it itself; '' for none.
WITH judged AS MATERIALIZED (
    SELECT r.oid, r.rolname, r.rolcanlogin AND NOT r.rolsuper AS logs_in, l.lacks, l.may, l.uses
    FROM pg_roles r
    CROSS JOIN LATERAL (
        SELECT
            coalesce(jsonb_agg(h.text ORDER BY h.n) FILTER (WHERE NOT h.has), '[]') AS lacks,
            coalesce(bool_or(h.has AND (h.kind = 'sequence' OR h.object = 'workers' AND h.name = 'INSERT'
                OR h.part = 'history' AND h.name = 'UPDATE')), false) AS may,
            coalesce(bool_or(h.has AND h.kind = 'schema'), false) AS uses
        FROM (
            SELECT
                w.kind, w.object, w.part, w.name, w.text, w.n,
                CASE w.kind
                    WHEN 'schema' THEN has_schema_privilege(r.oid, 'errand', w.name)
                    WHEN 'function' THEN (
                        SELECT coalesce(bool_and(has_function_privilege(r.oid, p.oid, w.name)), true) FROM pg_proc p
                        WHERE p.pronamespace = 'errand'::regnamespace AND p.proname = w.object)
                    WHEN 'column' THEN has_column_privilege(r.oid, c.oid, w.part, w.name)
                    WHEN 'sequence' THEN has_sequence_privilege(r.oid, c.oid, w.name)
                    ELSE has_table_privilege(r.oid, c.oid, w.name)
                END AS has
            FROM ROWS FROM (
                jsonb_to_recordset($1::text::jsonb) AS (kind text, object text, part text, name text, text text)
            ) WITH ORDINALITY AS w (kind, object, part, name, text, n)
            LEFT JOIN pg_class c ON c.relnamespace = 'errand'::regnamespace AND c.relname = w.object
        ) AS h
    ) AS l
    WHERE r.rolcanlogin AND NOT r.rolsuper OR EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = r.oid)
)
SELECT
    r.rolname::text, r.lacks::text,
    (r.may OR NOT r.uses AND EXISTS (
        SELECT FROM pg_stat_activity a
        WHERE a.usesysid = r.oid AND a.datname = current_database() AND a.application_name <> 'errand-cli'
            AND (a.query LIKE '%"' || 'errand' || '".%' OR a.application_name ILIKE '%errand%'
                AND NOT EXISTS ( -- it works in a schema of its own
                    SELECT FROM pg_class s
                    WHERE s.relname = 'sleepers' AND s.relkind = 'r' AND s.relnamespace <> 'errand'::regnamespace
                        AND has_table_privilege(r.oid, s.oid, 'SELECT')))))
    AND NOT EXISTS (
        SELECT FROM judged m
        WHERE m.oid <> r.oid AND m.lacks = '[]' AND pg_has_role(r.oid, m.oid, 'MEMBER'))
    -- Not by judged: has_table_privilege knows a grant that is younger than this statement's snapshot.
    AND NOT EXISTS (
        SELECT FROM pg_roles m
        WHERE m.rolname = 'pg_write_all_data' AND pg_has_role(r.oid, m.oid, 'MEMBER')),
    coalesce((
        SELECT min(m.rolname)::text FROM judged m
        WHERE m.may AND (m.rolname = 'errand_worker' OR m.rolname LIKE '%\_worker') AND pg_has_role(r.oid, m.oid, 'MEMBER')), '')
FROM judged r
WHERE r.logs_in
ORDER BY 1
