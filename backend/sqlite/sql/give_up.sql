-- Takes the keys of running jobs. ?1 is a JSON array of pairs of queue and key.
-- Index: errand_jobs_key.
UPDATE errand_jobs INDEXED BY errand_jobs_key
SET job_key = NULL
WHERE (queue, job_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
    AND job_key IS NOT NULL
    AND status IN ('pending', 'running', 'held')
    AND status = 'running';
