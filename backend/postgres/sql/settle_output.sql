-- Completes jobs that have an output: $1 ids in ascending order, $2 the fence of each, $3 worker, $4 whether done jobs
-- are kept, $5 the outputs, a JSON object by id, $6 whether to wait for a lock for half a second at most. Returns the
-- ids of lost jobs. The output of a job that is not kept is not kept either. Rows are locked in the order of their ids,
-- as in settle.sql.
-- Index: jobs_pkey, results_pkey.
WITH locked AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE (SELECT CASE WHEN $6::boolean THEN set_config('lock_timeout', '500ms', true) ELSE '' END) <> '0'
        AND id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
        AND locked_by = $3::text
        AND status BETWEEN 'running' AND 'running'
    ORDER BY id
    FOR NO KEY UPDATE
), kept AS (
    UPDATE errand.jobs
    SET
        status = 'completed', locked_at = NULL, locked_until = NULL,
        updated_at = statement_timestamp(), finished_at = statement_timestamp()
    WHERE $4::boolean AND id = ANY (ARRAY(SELECT id FROM locked))
    RETURNING id
), dropped AS (
    DELETE FROM errand.jobs
    WHERE NOT $4::boolean AND id = ANY (ARRAY(SELECT id FROM locked))
    RETURNING id
), stored AS (
    INSERT INTO errand.results (job_id, output)
    SELECT id, (SELECT $5::text::jsonb) -> id::text FROM kept ORDER BY id
    ON CONFLICT (job_id) DO UPDATE SET output = excluded.output
), removed AS (
    DELETE FROM errand.results WHERE job_id = ANY (ARRAY(SELECT id FROM dropped))
)
SELECT want.id FROM unnest((SELECT $1::text::bigint[])) AS want (id)
EXCEPT
(SELECT id FROM kept UNION ALL SELECT id FROM dropped);
