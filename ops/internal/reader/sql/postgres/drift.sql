-- What is in the schema: indexes, columns, constraints, functions, triggers, rules, types and options of tables, their
-- children, and foreign keys that reference them. on_table is the table that an object is about. Of an index, a rule
-- and a trigger also whether it is in use.
SELECT
    'index' AS kind, c.relname::text AS name, pg_get_indexdef(i.indexrelid) AS definition, t.relname::text AS on_table,
    i.indisvalid AND i.indisready
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
WHERE c.relnamespace = 'errand'::regnamespace
UNION ALL
SELECT
    'column', c.relname || '.' || a.attname,
    format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull OR t.typnotnull THEN ' NOT NULL' ELSE '' END
        || CASE WHEN a.attidentity = '' THEN '' ELSE ' GENERATED AS IDENTITY' END
        || CASE WHEN a.attgenerated = '' THEN '' ELSE ' GENERATED' END
        || coalesce(' DEFAULT ' || coalesce(pg_get_expr(d.adbin, d.adrelid), t.typdefault), ''), c.relname, true
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint', c.relname || '.' || o.conname, pg_get_constraintdef(o.oid), c.relname, o.convalidated
FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
WHERE o.connamespace = 'errand'::regnamespace AND o.contype NOT IN ('n', 't')
UNION ALL
SELECT 'reference', o.conrelid::regclass || '.' || o.conname, pg_get_constraintdef(o.oid), c.relname, o.convalidated
FROM pg_constraint o JOIN pg_class c ON c.oid = o.confrelid
WHERE c.relnamespace = 'errand'::regnamespace AND o.contype = 'f'
UNION ALL
SELECT 'child', i.inhrelid::regclass::text, 'INHERITS (' || c.relname || ')', c.relname, true
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT 'rule', c.relname || '.' || r.rulename, pg_get_ruledef(r.oid), c.relname, r.ev_enabled <> 'D'
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT 'function', p.proname::text, p.prosrc, '', true FROM pg_proc p WHERE p.pronamespace = 'errand'::regnamespace
UNION ALL
SELECT 'trigger', c.relname || '.' || t.tgname, '', c.relname, t.tgenabled IN ('O', 'A')
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'errand'::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT 'type', t.typname::text, string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder), '', true
FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid WHERE t.typnamespace = 'errand'::regnamespace GROUP BY t.typname
UNION ALL
SELECT 'domain', t.typname || '.' || o.conname, pg_get_constraintdef(o.oid), '', o.convalidated
FROM pg_type t JOIN pg_constraint o ON o.contypid = t.oid
WHERE t.typnamespace = 'errand'::regnamespace AND o.contype = 'c'
UNION ALL
SELECT 'options', c.relname::text, array_to_string(ARRAY(
    SELECT o.option FROM unnest(c.reloptions) AS o (option)
    WHERE o.option NOT LIKE 'autovacuum\_enabled=%' ORDER BY 1), ', '), c.relname, true
FROM pg_class c WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT 'unlogged', c.relname::text, 'UNLOGGED', c.relname, true
FROM pg_class c WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'u'
    AND c.relname NOT IN ('sleepers', 'workers')
UNION ALL
SELECT 'row security', c.relname::text, 'ENABLE ROW LEVEL SECURITY', c.relname, true
FROM pg_class c WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r' AND c.relrowsecurity
ORDER BY 1, 2, 3
