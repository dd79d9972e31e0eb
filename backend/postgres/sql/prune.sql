-- Looks at the $2 jobs that follow id $1 and removes those that ended long enough ago: completed ones after $3
-- microseconds, dead ones after $4; with $5 they go to jobs_archive. Returns the last id looked at, how many were removed, and whether
-- any of the slice was created that long ago: where none was, what follows is younger still.
-- No index is kept for this: completed jobs would pay for it when they are settled.
-- Index: jobs_pkey.
WITH slice AS MATERIALIZED (
    SELECT id, status, created_at, updated_at
    FROM errand.jobs
    WHERE id > $1::bigint
    ORDER BY id
    LIMIT $2::integer
), over AS (
    SELECT j.id
    FROM errand.jobs j
    WHERE j.id = ANY (ARRAY(SELECT id FROM slice))
        AND (j.status = 'completed' AND j.updated_at <= statement_timestamp() - $3::bigint * interval '1 microsecond'
            OR j.status = 'dead' AND j.updated_at <= statement_timestamp() - $4::bigint * interval '1 microsecond')
    ORDER BY j.id
    FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM errand.jobs
    WHERE id = ANY (ARRAY(SELECT id FROM over))
    RETURNING
        id, queue, payload, status, priority, scheduled_at, locked_at, locked_by, attempts, max_attempts, last_error,
        created_at, updated_at, kind, headers, job_key, fence, locked_until
), archived AS (
    INSERT INTO errand.jobs_archive (
        id, queue, payload, status, priority, scheduled_at, locked_at, locked_by, attempts, max_attempts, last_error,
        created_at, updated_at, kind, headers, job_key, fence, locked_until
    )
    SELECT * FROM removed WHERE $5::boolean
)
SELECT
    coalesce(max(s.id), 0),
    (SELECT count(*) FROM removed),
    coalesce(bool_or(s.created_at <=
        statement_timestamp() - least($3::bigint, $4::bigint) * interval '1 microsecond'), false)
FROM slice s;
