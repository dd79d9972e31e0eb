-- Writes what the jobs with the ids $1 were before they were received: their created_at $2, attempts $3 and last_error
-- $4, each an array. A created_at of -infinity stays as it is.
-- Index: jobs_pkey.
UPDATE errand.jobs AS j
SET created_at = coalesce(past.created_at, j.created_at), attempts = past.attempts, last_error = past.last_error
FROM unnest(
    ($1::text)::bigint[], array_replace(($2::text)::timestamptz[], '-infinity', NULL), ($3::text)::integer[],
    array_replace(($4::text)::text[], '', NULL)
) AS past (id, created_at, attempts, last_error)
WHERE j.id = ANY (($1::text)::bigint[]) AND j.id = past.id;
