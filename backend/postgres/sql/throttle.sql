-- Empties buckets: $1 queues, $2 groups and $3 nanoseconds for which there is no token. It is the bucket of the group
-- if that has a rate, and else that of the queue. See queue.Throttled.
-- Index: rules_pkey, tokens_pkey.
INSERT INTO errand.tokens AS t (queue, job_group, until)
SELECT b.queue, b.job_group, max(errand.nanoseconds(clock_timestamp()) + b.delay)
FROM (
    SELECT
        n.queue, n.delay,
        CASE
            WHEN n.job_group > '' AND (o.group_rate_jobs > 0 OR coalesce(o.group_rate_jobs, 0) = 0 AND q.group_rate_jobs > 0)
                THEN n.job_group
            WHEN q.rate_jobs > 0 THEN ''
        END COLLATE "C" AS job_group
    FROM unnest((SELECT $1::text::text[]), (SELECT $2::text::text[]), (SELECT $3::text::bigint[])) AS n (queue, job_group, delay)
    LEFT JOIN errand.rules q ON q.queue = n.queue AND q.job_group = ''
    LEFT JOIN errand.rules o ON o.queue = n.queue AND o.job_group = n.job_group AND o.job_group > ''
) AS b
WHERE b.job_group IS NOT NULL
GROUP BY b.queue, b.job_group
ORDER BY b.queue COLLATE "C", b.job_group
ON CONFLICT (queue, job_group) DO UPDATE SET until = greatest(t.until, excluded.until);
