-- Completes jobs and keeps them: $1 ids in ascending order, $2 the fence of each, $3 worker, $4 whether to wait for a
-- lock for 200 ms at most. Returns the ids of lost jobs.
-- It is settle.sql for batches in which all jobs are done, except that the planner chooses the order in which rows are
-- locked: a longer wait might be a deadlock. 200 ms are less than the usual deadlock_timeout, even if it waits for
-- several rows, and more than another transaction takes to make the table longer, which it also waits for.
-- Index: jobs_pkey.
WITH kept AS (
    UPDATE errand.jobs
    SET
        status = 'completed', locked_at = NULL, locked_until = NULL,
        updated_at = statement_timestamp(), finished_at = statement_timestamp()
    WHERE (SELECT CASE WHEN $4::boolean THEN set_config('lock_timeout', '200ms', true) ELSE '' END) <> '0'
        AND id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
        AND locked_by = $3::text
        AND status BETWEEN 'running' AND 'running'
    RETURNING id
)
SELECT want.id FROM unnest((SELECT $1::text::bigint[])) AS want (id)
WHERE (SELECT count(*) FROM kept) < cardinality((SELECT $1::text::bigint[])) AND want.id NOT IN (SELECT id FROM kept);
