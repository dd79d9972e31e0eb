-- What is in the schema: indexes, columns, constraints, functions, triggers, rules, types and options of tables, and
-- foreign keys of other schemas' tables that reference its tables. Of an index and a trigger also whether it is in use.
SELECT
    'index' AS kind, c.relname::text AS name, pg_get_indexdef(i.indexrelid) AS definition,
    i.indisvalid AND i.indisready
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'errand'::regnamespace
UNION ALL
SELECT
    'column', c.relname || '.' || a.attname,
    format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
        || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), ''), true
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint', c.relname || '.' || o.conname, pg_get_constraintdef(o.oid), o.convalidated
FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid
WHERE o.connamespace = 'errand'::regnamespace AND o.contype NOT IN ('n', 't')
UNION ALL
SELECT 'reference', o.conrelid::regclass || '.' || o.conname, pg_get_constraintdef(o.oid), o.convalidated
FROM pg_constraint o JOIN pg_class c ON c.oid = o.confrelid
WHERE c.relnamespace = 'errand'::regnamespace AND o.connamespace <> c.relnamespace AND o.contype = 'f'
UNION ALL
SELECT 'rule', c.relname || '.' || r.rulename, pg_get_ruledef(r.oid), r.ev_enabled <> 'D'
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT 'function', p.proname::text, p.prosrc, true FROM pg_proc p WHERE p.pronamespace = 'errand'::regnamespace
UNION ALL
SELECT 'trigger', c.relname || '.' || t.tgname, '', t.tgenabled <> 'D'
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'errand'::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT 'type', t.typname::text, string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder), true
FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid WHERE t.typnamespace = 'errand'::regnamespace GROUP BY t.typname
UNION ALL
SELECT 'options', c.relname::text, array_to_string(ARRAY(
    SELECT o.option FROM unnest(c.reloptions) AS o (option)
    WHERE o.option NOT LIKE 'autovacuum\_enabled=%' ORDER BY 1), ', '), true
FROM pg_class c WHERE c.relnamespace = 'errand'::regnamespace AND c.relkind = 'r'
ORDER BY 1, 2, 3
