-- Records outcomes other than done of jobs that worker ?3 holds with fence ?2. ?1 is a JSON array of outcomes,
-- each an array of id, action, due time, error and, after a panic, the top of its stack; ?4 is now. A due time
-- of NULL leaves the job's as it is. Of the failures in a job's history, the last nine stay beside the new one.
-- A job that is to be cancelled does not return to its queue. Returns the ids, queues and new statuses of the jobs that the worker does hold. SQLite would plan UPDATE
-- ... FROM the wrong way round, and INSERT with ON CONFLICT would fire the application's triggers. For each
-- job the statement searches all outcomes, so they should be few.
-- Index: errand_jobs_running.
WITH o (id, action, due, error, stack) AS MATERIALIZED (
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
    FROM json_each(?1)
)
UPDATE errand_jobs INDEXED BY errand_jobs_running
SET
    (status, attempts, scheduled_at, last_error, started_at, finished_at, history, cancel_at) = (
        SELECT
            CASE WHEN o.action = 'cancel' OR o.action <> 'dead' AND cancel_at IS NOT NULL THEN 'cancelled'
                WHEN o.action = 'dead' OR o.action = 'retry' AND attempts >= max_attempts THEN 'dead' ELSE 'pending' END,
            iif(o.action = 'release', max(attempts - 1, 0), attempts),
            iif(o.action IN ('dead', 'cancel') OR cancel_at IS NOT NULL OR o.action = 'retry' AND attempts >= max_attempts,
                scheduled_at, coalesce(o.due, scheduled_at)),
            iif(o.action = 'release', last_error, o.error),
            iif(o.action IN ('dead', 'cancel') OR cancel_at IS NOT NULL OR o.action = 'retry' AND attempts >= max_attempts,
                started_at, NULL),
            iif(o.action IN ('dead', 'cancel') OR cancel_at IS NOT NULL OR o.action = 'retry' AND attempts >= max_attempts,
                ?4, NULL),
            iif(o.action = 'release', history,
                json_insert(
                    iif(json_valid(history) AND json_type(history) = 'array',
                        iif(json_array_length(history) >= 10, json_remove(history, '$[0]'), history), '[]'),
                    '$[#]', json_patch('{}', json_object(
                        'at', strftime('%Y-%m-%dT%H:%M:%S', ?4 / 1000000, 'unixepoch') || printf('.%06dZ', ?4 % 1000000),
                        'attempt', attempts, 'redrives', redrives, 'worker', locked_by,
                        'error', substr(o.error, 1, 2048), 'stack', substr(o.stack, 1, 2048),
                        'took_ns', 1000 * (?4 - max(min(coalesce(started_at, ?4), ?4), 0)))))),
            iif(o.action = 'cancel' OR o.action <> 'dead' AND cancel_at IS NOT NULL, coalesce(cancel_at, ?4), NULL)
        FROM o
        WHERE o.id = errand_jobs.id
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
