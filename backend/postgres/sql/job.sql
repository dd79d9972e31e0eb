-- Returns the job with id $1, with its payload and headers if $2. Times are shown as in list.sql.
-- Index: jobs_pkey.
SELECT
    id, queue, kind, CASE WHEN $2::boolean THEN payload END, priority,
    least(greatest(scheduled_at, '1970-01-01Z'), '9999-12-31Z'), attempts, max_attempts,
    greatest(fence, 0), least(greatest(created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(job_key, ''),
    CASE WHEN $2::boolean THEN headers END, coalesce(left(last_error, 8192), ''), coalesce(job_group, ''),
    coalesce(locked_by, ''), status::text,
    CASE WHEN locked_at IS NOT NULL THEN least(greatest(locked_at, '1970-01-01Z'), '9999-12-31Z') END,
    CASE WHEN locked_until IS NOT NULL THEN least(greatest(locked_until, '1970-01-01Z'), '9999-12-31Z') END,
    least(greatest(updated_at, '1970-01-01Z'), '9999-12-31Z'),
    CASE WHEN started_at IS NOT NULL THEN least(greatest(started_at, '1970-01-01Z'), '9999-12-31Z') END,
    CASE WHEN finished_at IS NOT NULL THEN least(greatest(finished_at, '1970-01-01Z'), '9999-12-31Z') END,
    CASE WHEN redriven_at IS NOT NULL THEN least(greatest(redriven_at, '1970-01-01Z'), '9999-12-31Z') END,
    coalesce(redrives, 0),
    CASE WHEN cancel_at IS NOT NULL THEN least(greatest(cancel_at, '1970-01-01Z'), '9999-12-31Z') END,
    history, coalesce(cost, 0)
FROM errand.jobs
WHERE id = $1::bigint;
