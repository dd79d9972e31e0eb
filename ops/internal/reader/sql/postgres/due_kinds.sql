-- The kinds of the first 1,000 jobs of queue $1 that have been due for $2 seconds.
-- Index: jobs_pending_idx.
SELECT kind, count(*) FROM (
    SELECT kind FROM errand.jobs
    WHERE queue = $1::text AND status = 'pending'
        AND scheduled_at <= statement_timestamp() - $2::float8 * interval '1 second'
    ORDER BY priority, scheduled_at, id
    LIMIT 1000
) AS d GROUP BY kind ORDER BY kind
