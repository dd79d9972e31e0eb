-- Other schemas of this database that have errand's tables.
SELECT n.nspname FROM pg_namespace n
WHERE n.nspname <> $1::text
    AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'jobs' AND c.relkind = 'r')
    AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'migrations' AND c.relkind = 'r')
    AND EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'fences' AND c.relkind = 'S')
ORDER BY n.nspname LIMIT 10
