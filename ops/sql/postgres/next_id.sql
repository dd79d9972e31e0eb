-- The first visible job whose ID is above $1, and how many seconds ago it was enqueued.
-- Index: jobs_pkey.
SELECT id, extract(epoch FROM clock_timestamp() - created_at)::float8
FROM errand.jobs
WHERE id > $1::bigint
ORDER BY id LIMIT 1
