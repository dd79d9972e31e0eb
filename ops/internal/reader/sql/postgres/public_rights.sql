-- What everybody may do in the schema.
SELECT
    has_schema_privilege('public', 'errand', 'USAGE'),
    coalesce((
        SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c
        WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r'
            AND has_table_privilege('public', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')), '')
