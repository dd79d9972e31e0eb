-- Releases the jobs that unanswered claims of worker $1 have taken: jobs with a fence above $2 that is none of $3,
-- locked within the last $4 microseconds. It wakes sleeping workers if $5, and never waits for a lock. Returns the ids
-- of the jobs.
-- Index: jobs_running_idx.
WITH back AS (
    UPDATE errand.jobs
    SET
        status = CASE WHEN cancel_at IS NULL THEN 'pending' ELSE 'cancelled' END::errand.job_status,
        attempts = greatest(attempts, 1) - 1,
        fence = CASE WHEN fence > 0 THEN -fence ELSE fence END, -- see claim.sql
        locked_at = NULL, locked_by = NULL, locked_until = NULL, updated_at = statement_timestamp(),
        started_at = NULL, finished_at = CASE WHEN cancel_at IS NOT NULL THEN statement_timestamp() END
    WHERE ctid = ANY (ARRAY(
        SELECT r.ctid
        FROM errand.jobs r
        WHERE r.status = 'running'
            AND r.locked_at >= statement_timestamp() - $4::bigint * interval '1 microsecond'
            AND r.locked_by = $1::text
            AND r.fence > $2::bigint
            AND r.fence <> ALL ((SELECT $3::text::bigint[])::bigint[])
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, queue
), woken AS (
    SELECT pg_notify('errand', q.queue)
    FROM (SELECT DISTINCT queue FROM back) AS q
    WHERE $5::boolean
        AND EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = q.queue
            AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT id FROM back WHERE (SELECT count(*) FROM woken) >= 0;
