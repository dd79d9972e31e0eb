-- Takes back at most ?2 jobs whose leases have run out at ?1.
-- Index: errand_jobs_running.
UPDATE errand_jobs
SET
    status = iif(attempts >= max_attempts, 'dead', 'pending'),
    last_error = 'errand: the lease of worker ' || coalesce(locked_by, '(none)') || ' ran out',
    fence = 0,
    locked_at = NULL,
    locked_until = NULL,
    locked_by = NULL,
    updated_at = ?1
WHERE id IN (
    SELECT id
    FROM errand_jobs INDEXED BY errand_jobs_running
    WHERE status = 'running' AND locked_until < ?1
    ORDER BY locked_until
    LIMIT ?2 + 0
)
RETURNING
    id, kind, payload, priority, scheduled_at, attempts, max_attempts, created_at, job_key, headers, last_error, queue;
