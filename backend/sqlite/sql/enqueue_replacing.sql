-- Writes jobs as enqueue_keyed.sql does, in the place of the pending or held job that has their key, if there is one.
-- ?1 and ?2 are those of enqueue_keyed.sql; ?3 is the longest delay in microseconds, or more than all times; ?4 is
-- whether the due times are the caller's ScheduledAt. A job that is not put off keeps its due time, so that it starts
-- however often it is replaced. The longest delay counts from created_at, which a job keeps unless it has been tried.
-- Returns the queue and key of each job that it has written, its id, and whether that is new. A job whose key a running
-- job has is not written.
-- Index: errand_jobs_key.
INSERT INTO errand_jobs (
    id, queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_key, job_group, cost, created_at, updated_at)
SELECT
    (SELECT seq FROM sqlite_sequence WHERE name = 'errand_jobs' COLLATE NOCASE) + 1 + key,
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9,
    ?2, ?2
FROM json_each(?1)
WHERE true
ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO UPDATE
SET
    kind = excluded.kind,
    payload = excluded.payload,
    priority = excluded.priority,
    scheduled_at = iif(
        ?4 OR min(excluded.scheduled_at, iif(attempts = 0, min(created_at, ?2), ?2) + ?3) > ?2,
        min(excluded.scheduled_at, iif(attempts = 0, min(created_at, ?2), ?2) + ?3),
        min(scheduled_at, ?2)),
    attempts = 0,
    max_attempts = excluded.max_attempts,
    headers = excluded.headers,
    job_group = excluded.job_group,
    cost = excluded.cost,
    last_error = NULL,
    created_at = iif(attempts = 0, created_at, ?2),
    updated_at = ?2
WHERE status IN ('pending', 'held')
RETURNING queue, job_key, id, id > (SELECT seq FROM sqlite_sequence WHERE name = 'errand_jobs' COLLATE NOCASE);
