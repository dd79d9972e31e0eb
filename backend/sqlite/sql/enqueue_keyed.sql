-- Writes jobs as enqueue.sql does, except those whose key a live job has. ?1 is the JSON array of the jobs,
-- each an array of its fields, the key, the group and the cost the last; ?2 is now. Returns the id of each job that it
-- has written, and the job's place in the array. sqlite_sequence changes when the statement ends. Until then it tells
-- where the ids of the statement begin.
-- Index: errand_jobs_key.
INSERT INTO errand_jobs (
    id, queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_key, job_group, cost, created_at, updated_at)
SELECT
    (SELECT seq FROM sqlite_sequence WHERE name = 'errand_jobs' COLLATE NOCASE) + 1 + key,
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9,
    ?2, ?2
FROM json_each(?1)
WHERE true
ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO NOTHING
RETURNING id, id - 1 - (SELECT seq FROM sqlite_sequence WHERE name = 'errand_jobs' COLLATE NOCASE);
