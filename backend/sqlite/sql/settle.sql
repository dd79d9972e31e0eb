-- Records outcomes other than done of jobs that worker ?3 holds with fence ?2. ?1 is a JSON array of outcomes,
-- each an array of id, action, due time, error and, after a panic, the top of its stack; ?4 is now. A due time
-- of NULL leaves the job's as it is. Of the failures in a job's history, the last nine stay beside the new one.
-- A job that is to be cancelled does not return to its queue, and is not held. An ordered job that would be dead is
-- held if the rule of its queue says so. Returns the ids, queues and new statuses of the jobs that the worker does
-- hold. SQLite would plan UPDATE ... FROM the wrong way round, and INSERT with ON CONFLICT would fire the
-- application's triggers. For each job the statement searches all outcomes, so they should be few.
-- Index: errand_jobs_running.
WITH o (id, action, due, error, stack) AS MATERIALIZED (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
    FROM json_each(?1)
)
UPDATE errand_jobs INDEXED BY errand_jobs_running
SET
    (status, attempts, scheduled_at, last_error, started_at, finished_at, history, cancel_at) = (
        SELECT
            o.status,
            iif(o.action = 'release', max(attempts - 1, 0), attempts),
            iif(o.status = 'pending', coalesce(o.due, scheduled_at), scheduled_at),
            iif(o.action = 'release', last_error, o.error),
            iif(o.status IN ('dead', 'cancelled'), started_at, NULL),
            iif(o.status IN ('dead', 'cancelled'), ?4, NULL),
            iif(o.action = 'release', history,
                json_insert(
                    iif(json_valid(history) AND json_type(history) = 'array',
                        iif(json_array_length(history) >= 10, json_remove(history, '$[0]'), history), '[]'),
                    '$[#]', json_patch('{}', json_object(
                        'at', strftime('%Y-%m-%dT%H:%M:%S', ?4 / 1000000, 'unixepoch') || printf('.%06dZ', ?4 % 1000000),
                        'attempt', attempts, 'redrives', redrives, 'worker', locked_by,
                        'error', substr(o.error, 1, 2048), 'stack', substr(o.stack, 1, 2048),
                        'took_ns', 1000 * (?4 - max(min(coalesce(started_at, ?4), ?4), 0)))))),
            iif(o.status = 'cancelled', coalesce(cancel_at, ?4), NULL)
        FROM (
            SELECT
                action, due, error, stack,
                CASE
                    WHEN action = 'cancel' OR action <> 'dead' AND cancel_at IS NOT NULL THEN 'cancelled'
                    WHEN action <> 'dead' AND (action <> 'retry' OR attempts < max_attempts) THEN 'pending'
                    WHEN priority = 2147483647 AND job_group IS NOT NULL AND cancel_at IS NULL AND EXISTS (
                        SELECT 1 FROM errand_rules AS r
                        WHERE r.queue = errand_jobs.queue AND r.job_group = '' AND r.hold_dead) THEN 'held'
                    ELSE 'dead' END AS status
            FROM o
            WHERE o.id = errand_jobs.id
        ) AS o
    ),
    fence = 0,
    locked_at = NULL,
    locked_until = NULL,
    locked_by = NULL,
    updated_at = ?4
WHERE id IN (SELECT id FROM o)
    AND fence = ?2
    AND locked_by = ?3
    AND status = 'running'
RETURNING id, queue, status;
