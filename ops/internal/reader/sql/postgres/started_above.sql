-- Of the thousand visible jobs with the next IDs above $1, the one that started first, and how many seconds ago. A job
-- that has started was committed before, so its ID, and every lower one, had been drawn by then.
-- Index: jobs_pkey.
SELECT id, extract(epoch FROM clock_timestamp() - started_at)::float8
FROM (SELECT id, started_at FROM errand.jobs WHERE id > $1::bigint ORDER BY id LIMIT 1000) AS j
WHERE started_at IS NOT NULL
ORDER BY started_at LIMIT 1
