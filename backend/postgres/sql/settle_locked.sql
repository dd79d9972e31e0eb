-- Finds the jobs that a transaction has locked: of those with ids $1, in ascending order, and fences $2 that worker $3
-- holds. Returns their ids. It does not wait. Its own locks end with the statement.
-- Index: jobs_pkey.
WITH free AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND status BETWEEN 'running' AND 'running'
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT id FROM errand.jobs
WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
    AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
    AND locked_by = $3::text
    AND status BETWEEN 'running' AND 'running'
    AND id NOT IN (SELECT id FROM free);
