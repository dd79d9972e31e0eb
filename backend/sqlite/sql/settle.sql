-- Records outcomes other than done: ?1 is a JSON array of outcomes, each an array of id, verb, time at which it is due again, and
-- error, of jobs that worker ?3 holds with fence ?2; ?4 is now. Returns the ids of those that it does hold.
-- Index: errand_jobs_running.
UPDATE errand_jobs INDEXED BY errand_jobs_running
SET
    status = iif(outcome.dead, 'dead', 'pending'),
    attempts = iif(outcome.verb = 'release', max(attempts - 1, 0), attempts),
    scheduled_at = iif(outcome.dead, scheduled_at, outcome.due),
    last_error = iif(outcome.verb = 'release', last_error, outcome.error),
    fence = 0,
    locked_at = NULL,
    locked_until = NULL,
    locked_by = NULL,
    updated_at = ?4
FROM (
    SELECT
        j.id, v.value ->> 1 AS verb, v.value ->> 2 AS due, v.value ->> 3 AS error,
        v.value ->> 1 = 'dead' OR v.value ->> 1 = 'retry' AND j.attempts >= j.max_attempts AS dead
    FROM json_each(?1) AS v
    CROSS JOIN errand_jobs AS j INDEXED BY errand_jobs_running
    WHERE j.id = v.value ->> 0
        AND j.fence = ?2
        AND j.locked_by = ?3
        AND j.status = 'running'
) AS outcome
WHERE errand_jobs.id = outcome.id
    AND status = 'running'
RETURNING id;
