-- Reports whether there are fewer than 10,000 pending jobs, of queue $1 or NULL for all. It looks at no more.
-- Index: jobs_pending_idx.
SELECT count(*) < 10000
FROM (
    SELECT FROM errand.jobs
    WHERE status = 'pending' AND ($1::text IS NULL OR queue = $1::text)
    LIMIT 10000
) AS found;
