-- The length of the table of jobs, what was added to it, and how old its oldest transaction number is.
SELECT
    pg_relation_size(c.oid), c.relrowsecurity, c.reltuples, age(c.relfrozenxid),
    coalesce((
        SELECT string_agg(quote_ident(t.tgname), ', ' ORDER BY t.tgname) FROM pg_trigger t
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
            AND t.tgname <> 'jobs_values_check_insert'), ''),
    coalesce('autovacuum_enabled=false' = ANY (c.reloptions) OR 'autovacuum_enabled=off' = ANY (c.reloptions), false)
FROM pg_class c WHERE c.oid = 'errand.jobs'::regclass
