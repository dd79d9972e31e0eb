-- Claims one job in the caller's transaction and completes it there: $1 queues, $2 kinds or NULL for all, $3 the
-- version of the rules that the caller knows. If there is a later one, it claims none and returns a row with the id 0.
-- The row stays locked until the transaction ends, so other claims skip it. A rollback leaves the job pending. It is
-- the guide's queue_in_tx, except that it keeps the row: resume.sql finds it by its fence if the work has failed.
WITH taken AS (
    UPDATE errand.jobs AS j
    SET
        status = 'completed', attempts = least(j.attempts, 1999999999) + 1,
        fence = greatest(nextval('errand.fences'),
            least(abs(greatest(j.fence, -9223372036854775806)), 9223372036854775806) + 1),
        locked_by = NULL,
        updated_at = transaction_timestamp(), started_at = statement_timestamp(), finished_at = statement_timestamp()
    WHERE j.ctid = ANY ((
        SELECT CASE WHEN (SELECT v.version FROM errand.rules_version v) = $3::bigint
            THEN errand.lock_due($1::text::text[], $2::text::text[], 1, NULL) END
    )::tid[])
    RETURNING
        j.id, j.queue, j.kind, j.payload, j.priority, j.scheduled_at, j.attempts, j.max_attempts,
        j.fence, j.created_at, j.job_key, j.headers, j.last_error, j.job_group
)
SELECT
    id, queue, kind, payload, priority, greatest(scheduled_at, '1970-01-01Z'), attempts, max_attempts,
    fence, least(greatest(created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(job_key, ''), headers,
    coalesce(left(last_error, 8192), ''), coalesce(job_group, '')
FROM taken
UNION ALL
SELECT 0, '', '', NULL, 0, '1970-01-01Z', 0, 0, 0, '1970-01-01Z', '', NULL, '', ''
FROM errand.rules_version v WHERE v.version <> $3::bigint;
