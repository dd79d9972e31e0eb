-- Returns the payload and the headers of the job with id $1. The payload is NULL if it is longer than $2 bytes.
-- Index: jobs_pkey.
SELECT CASE WHEN octet_length(payload::text) <= $2::bigint THEN payload END, headers
FROM errand.jobs
WHERE id = $1::bigint;
