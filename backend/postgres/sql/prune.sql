-- Removes jobs that ended long enough ago: dead and cancelled ones after $3 microseconds, at most 1000 of each, along
-- their indexes; and, of the 1000 jobs that follow id $1, those that were completed $2 microseconds ago. With $4 they
-- move to jobs_archive. A row that is there already is deleted: somebody has put it back into the table. $5 is the key
-- of an advisory lock: while another process prunes, it does nothing.
-- Returns the last id that it looked at (NULL if it did nothing), how many completed jobs it removed, how many
-- others, and whether there may be more completed ones: the slice is full and has a job that was created that long ago.
-- It removes the results of the jobs that it removes, and, of the 1000 that follow id $1, those whose jobs are not in
-- the table: a job that was deleted by SQL, or by settling, leaves its result.
-- Completed jobs have no index, because settling would pay for it. Columns are named, because the table may have more
-- of them than errand knows.
-- Index: jobs_pkey, jobs_stopped_idx, results_pkey.
WITH turn AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock($5::bigint) AS mine
), slice AS MATERIALIZED (
    SELECT id, status, created_at, updated_at
    FROM errand.jobs
    WHERE id > $1::bigint AND (SELECT mine FROM turn)
    ORDER BY id
    LIMIT 1000
), done AS MATERIALIZED (
    SELECT j.id
    FROM errand.jobs j
    WHERE j.id = ANY (ARRAY(
            SELECT id FROM slice
            WHERE status = 'completed' AND updated_at <= statement_timestamp() - $2::bigint * interval '1 microsecond'))
        AND j.status BETWEEN 'completed' AND 'completed'
        AND j.updated_at <= statement_timestamp() - $2::bigint * interval '1 microsecond'
    ORDER BY j.id
    FOR UPDATE SKIP LOCKED
), dead AS MATERIALIZED (
    SELECT j.id
    FROM errand.jobs j
    WHERE j.status = 'dead'
        AND j.updated_at <= statement_timestamp() - $3::bigint * interval '1 microsecond'
        AND (SELECT mine FROM turn)
    ORDER BY j.updated_at, j.id
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
), cancelled AS MATERIALIZED (
    SELECT j.id
    FROM errand.jobs j
    WHERE j.status = 'cancelled'
        AND j.updated_at <= statement_timestamp() - $3::bigint * interval '1 microsecond'
        AND (SELECT mine FROM turn)
    ORDER BY j.updated_at, j.id
    LIMIT 1000
    FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM errand.jobs
    WHERE id = ANY (ARRAY(SELECT id FROM done UNION ALL SELECT id FROM dead UNION ALL SELECT id FROM cancelled))
    RETURNING
        id, queue, payload, status, priority, scheduled_at, locked_at, locked_by, attempts, max_attempts, last_error,
        created_at, updated_at, kind, headers, job_key, fence, locked_until,
        started_at, finished_at, redriven_at, redrives, job_group, ordered,
        cancel_at, history, cost
), archived AS (
    INSERT INTO errand.jobs_archive (
        id, queue, payload, status, priority, scheduled_at, locked_at, locked_by, attempts, max_attempts, last_error,
        created_at, updated_at, kind, headers, job_key, fence, locked_until,
        started_at, finished_at, redriven_at, redrives, job_group, ordered,
        cancel_at, history, cost
    )
    SELECT * FROM removed WHERE $4::boolean
    ON CONFLICT DO NOTHING
), results AS (
    DELETE FROM errand.results
    WHERE job_id = ANY (ARRAY(
        SELECT r.job_id FROM errand.results r
        WHERE r.job_id = ANY (ARRAY(SELECT id FROM removed))
        FOR UPDATE SKIP LOCKED))
), orphans AS (
    DELETE FROM errand.results
    WHERE job_id = ANY (ARRAY(
        SELECT r.job_id FROM errand.results r
        WHERE r.job_id = ANY (ARRAY(
                SELECT n.job_id FROM errand.results n
                WHERE n.job_id > $1::bigint AND (SELECT mine FROM turn)
                ORDER BY n.job_id
                LIMIT 1000))
            AND NOT EXISTS (SELECT FROM errand.jobs j WHERE j.id = r.job_id)
        FOR UPDATE SKIP LOCKED))
)
SELECT
    CASE WHEN (SELECT mine FROM turn) THEN coalesce(max(s.id), 0) END,
    (SELECT count(*) FROM removed WHERE status = 'completed'),
    (SELECT count(*) FROM removed WHERE status <> 'completed'),
    count(*) = 1000
        AND bool_or(s.created_at <= statement_timestamp() - $2::bigint * interval '1 microsecond')
FROM slice s;
