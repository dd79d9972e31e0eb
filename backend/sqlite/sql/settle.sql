-- Records outcomes other than done: ?1 is a JSON array of outcomes, each an array of id, verb, time at which it is due again or NULL
-- for the time at which it was, and error, of jobs that worker ?3 holds with fence ?2; ?4 is now. Returns those that it does hold:
-- their ids, queues and new statuses.
-- No row is inserted, as in take.sql: what is selected is there.
-- Index: errand_jobs_running.
INSERT INTO errand_jobs (id, status, attempts, scheduled_at, last_error, created_at, updated_at)
SELECT
    o.id,
    iif(o.dead, 'dead', 'pending'),
    iif(o.verb = 'release', max(o.attempts - 1, 0), o.attempts),
    iif(o.dead, o.scheduled_at, coalesce(o.due, o.scheduled_at)),
    iif(o.verb = 'release', o.last_error, o.error),
    0,
    ?4
FROM (
    SELECT
        j.id, j.attempts, j.scheduled_at, j.last_error, v.value ->> 1 AS verb, v.value ->> 2 AS due, v.value ->> 3 AS error,
        v.value ->> 1 = 'dead' OR v.value ->> 1 = 'retry' AND j.attempts >= j.max_attempts AS dead
    FROM json_each(?1) AS v
    CROSS JOIN errand_jobs AS j INDEXED BY errand_jobs_running
    WHERE j.id = v.value ->> 0
        AND j.fence = ?2
        AND j.locked_by = ?3
        AND j.status = 'running'
) AS o
WHERE true
ON CONFLICT (id) DO UPDATE
SET
    status = excluded.status,
    attempts = excluded.attempts,
    scheduled_at = excluded.scheduled_at,
    last_error = excluded.last_error,
    fence = 0,
    locked_at = NULL,
    locked_until = NULL,
    locked_by = NULL,
    updated_at = excluded.updated_at
RETURNING id, queue, status;
