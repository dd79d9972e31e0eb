-- Lists jobs, newest first: $1 queue, $2 kind, $3 key, each NULL for any, with ids below $4 (NULL for any), at most $5.
-- For one status, AND status = '...' takes the place of AND true: only written out does it let the planner
-- use the partial indexes, of which it makes the difference where there are few among many.
-- Due times that SQL has set to -infinity or infinity, which drivers cannot tell Go, are shown as 1970 and 9999.
-- Index: jobs_pkey; jobs_dead_idx, jobs_pending_idx, jobs_running_idx.
SELECT
    id, queue, kind, payload, priority, least(greatest(scheduled_at, '1970-01-01Z'), '9999-12-31Z'), attempts, max_attempts,
    fence, created_at, coalesce(job_key, ''), headers, coalesce(last_error, ''),
    coalesce(locked_by, ''), status::text, locked_at, locked_until, updated_at
FROM errand.jobs
WHERE ($1::text IS NULL OR queue = $1::text)
    AND ($2::text IS NULL OR kind = $2::text)
    AND true
    AND ($3::text IS NULL OR job_key = $3::text)
    AND ($4::bigint IS NULL OR id < $4::bigint)
ORDER BY id DESC
LIMIT $5::integer;
