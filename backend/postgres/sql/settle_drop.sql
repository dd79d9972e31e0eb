-- Deletes jobs that are done: $1 ids in ascending order, $2 the fence of each, $3 worker, $4 whether to wait for a lock
-- for 50 ms at most. Returns the ids of lost jobs. See settle_done.sql, which keeps them.
-- Index: jobs_pkey.
WITH dropped AS (
    DELETE FROM errand.jobs
    WHERE (SELECT CASE WHEN $4::boolean THEN set_config('lock_timeout', '200ms', true) ELSE '' END) <> '0'
        AND id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
        AND locked_by = $3::text
        AND status BETWEEN 'running' AND 'running'
    RETURNING id
)
SELECT want.id FROM unnest((SELECT $1::text::bigint[])) AS want (id)
WHERE (SELECT count(*) FROM dropped) < cardinality((SELECT $1::text::bigint[]))
    AND want.id NOT IN (SELECT id FROM dropped);
