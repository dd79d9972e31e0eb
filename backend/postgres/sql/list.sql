-- Lists jobs, newest first: $1 queue, $2 kind, $3 status, $4 key, each NULL for any, with ids below $5 (NULL for any), at most $6.
-- Index: jobs_pkey; for the dead, the pending and the running their partial indexes where they are few.
SELECT
    id, queue, kind, payload, priority, scheduled_at, attempts, max_attempts,
    fence, created_at, coalesce(job_key, ''), headers, coalesce(last_error, ''),
    coalesce(locked_by, ''), status::text, locked_at, locked_until, updated_at
FROM errand.jobs
WHERE ($1::text IS NULL OR queue = $1::text)
    AND ($2::text IS NULL OR kind = $2::text)
    AND ($3::text IS NULL OR status = $3::text::errand.job_status)
    AND ($4::text IS NULL OR job_key = $4::text)
    AND ($5::bigint IS NULL OR id < $5::bigint)
ORDER BY id DESC
LIMIT $6::integer;
