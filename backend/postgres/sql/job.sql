-- One job: $1 is its id.
-- Index: jobs_pkey.
SELECT
    id, queue, kind, payload, priority, scheduled_at, attempts, max_attempts,
    fence, created_at, coalesce(job_key, ''), headers, coalesce(last_error, ''),
    coalesce(locked_by, ''), status::text, locked_at, locked_until, updated_at
FROM errand.jobs
WHERE id = $1::bigint;
