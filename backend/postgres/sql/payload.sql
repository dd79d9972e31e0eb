-- Returns the payload and the headers of the job with id $1.
-- Index: jobs_pkey.
SELECT payload, headers FROM errand.jobs WHERE id = $1::bigint;
