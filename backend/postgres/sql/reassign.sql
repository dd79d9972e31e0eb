-- Gives claimed jobs to other workers: $1 ids in ascending order, $2 the fence of each, $3 the worker that holds them,
-- $4 the worker that is to hold each. Returns the ids of the jobs for which it has done so.
-- Like extend.sql it never waits for a lock, and locks rows in the order of their ids.
-- Index: jobs_pkey.
UPDATE errand.jobs
SET locked_by = (SELECT $4::text::text[])[width_bucket(id, (SELECT $1::text::bigint[]))]
WHERE id = ANY (ARRAY(
    SELECT id FROM errand.jobs
    WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
        AND locked_by = $3::text
        AND status BETWEEN 'running' AND 'running'
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING id;
