-- Finds the live jobs that have these keys. ?1 is a JSON array of pairs of queue and key. Returns the place of each
-- pair that it finds, and the job's id.
-- Index: errand_jobs_key.
SELECT want.key, j.id
FROM json_each(?1) AS want
CROSS JOIN errand_jobs AS j INDEXED BY errand_jobs_key
WHERE j.queue = want.value ->> 0
    AND j.job_key = want.value ->> 1
    AND j.job_key IS NOT NULL
    AND j.status IN ('pending', 'running', 'held');
