-- One job: $1 is its id.
-- Index: jobs_pkey.
SELECT
    id, queue, kind, payload, priority, least(greatest(scheduled_at, '1970-01-01Z'), '9999-12-31Z'), attempts, max_attempts,
    fence, created_at, coalesce(job_key, ''), headers, coalesce(last_error, ''),
    coalesce(locked_by, ''), status::text, locked_at, locked_until, updated_at
FROM errand.jobs
WHERE id = $1::bigint;
