-- Writes what jobs were before they were received. ?1 is a JSON array, whose elements are arrays of a job's id, its
-- created_at or null, its attempts and its last error or null.
-- Index: the ids are the table's own order.
UPDATE errand_jobs
SET created_at = coalesce(v.value ->> 1, created_at), attempts = v.value ->> 2, last_error = v.value ->> 3
FROM json_each(?1) AS v
WHERE errand_jobs.id = v.value ->> 0;
