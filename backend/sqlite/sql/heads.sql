-- Returns the jobs with the ids in the JSON array ?1, in the order of the array.
-- Index: the table's own order.
SELECT
    j.id, j.kind, j.payload, j.priority, j.scheduled_at, j.attempts, j.max_attempts, j.created_at, j.job_key, j.headers,
    j.last_error, j.job_group
FROM json_each(?1) AS v
CROSS JOIN errand_jobs AS j NOT INDEXED
WHERE j.id = v.value
ORDER BY v.key;
