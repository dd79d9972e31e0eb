-- Returns the time, and with it the buckets of the rates of the groups $2 of queue $1 that are not full, '' for the
-- rate of the queue. If there are none, the group is NULL.
-- Index: tokens_pkey.
SELECT n.at, t.job_group, coalesce(t.at, 0), coalesce(t.full_at, 0), coalesce(t.each, 0), coalesce(t.until, 0)
FROM (SELECT clock_timestamp() AS at) AS n
LEFT JOIN errand.tokens t ON t.queue = $1::text AND t.job_group = ANY ($2::text::text[]);
