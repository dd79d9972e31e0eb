-- Reclaims those jobs of the JSON array of ids ?2 whose leases have expired at ?1 with ?3 and ?4, as
-- expired.sql says. Returns them without
-- payloads and headers. A job that its worker was asked to cancel is cancelled. An ordered job that would be dead is
-- held if the rule of its queue says so.
-- Index: errand_jobs_running.
UPDATE errand_jobs INDEXED BY errand_jobs_running
SET
    (status, started_at, finished_at) = (
        SELECT
            o.status, iif(o.status IN ('dead', 'cancelled'), started_at, NULL),
            iif(o.status IN ('dead', 'cancelled'), ?1, NULL)
        FROM (
            SELECT CASE
                WHEN cancel_at IS NOT NULL THEN 'cancelled'
                WHEN attempts < max_attempts THEN 'pending'
                WHEN priority = 2147483647 AND job_group IS NOT NULL AND EXISTS (
                    SELECT 1 FROM errand_rules AS r
                    WHERE r.queue = errand_jobs.queue AND r.job_group = '' AND r.hold_dead) THEN 'held'
                ELSE 'dead' END AS status
        ) AS o
    ),
    last_error = iif(cancel_at IS NOT NULL, 'errand: cancelled, and the lease of its worker expired',
        'errand: the lease of worker ' || coalesce(locked_by, '(none)') || ' expired'),
    fence = 0,
    locked_at = NULL,
    locked_until = NULL,
    locked_by = NULL,
    updated_at = ?1,
    history = json_insert(
        iif(json_valid(history) AND json_type(history) = 'array',
            iif(json_array_length(history) >= 10, json_remove(history, '$[0]'), history), '[]'),
        '$[#]', json_patch('{}', json_object(
            'at', strftime('%Y-%m-%dT%H:%M:%S', ?1 / 1000000, 'unixepoch') || printf('.%06dZ', ?1 % 1000000),
            'attempt', attempts, 'redrives', redrives, 'worker', locked_by,
            'error', substr('errand: the lease of worker ' || coalesce(locked_by, '(none)') || ' expired', 1, 2048),
            'took_ns', 1000 * (?1 - max(min(coalesce(started_at, ?1), ?1), 0)))))
WHERE id IN (SELECT value FROM json_each(?2))
    AND status = 'running'
    AND iif(locked_at > ?1 + 60000000, ?4 + (locked_until - locked_at), locked_until) < ?1 - (
        SELECT coalesce(sum(json_extract(value, '$[1]')), 0) FROM json_each(?3) WHERE locked_at <= json_extract(value, '$[0]'))
RETURNING
    id, kind, NULL, priority, scheduled_at, attempts, max_attempts, created_at, job_key, NULL, last_error, job_group, queue;
