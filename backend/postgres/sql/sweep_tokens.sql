-- Removes the buckets that are full at the present rates or have none, a thousand at most, but none that is throttled.
-- Index: none: they are few.
DELETE FROM errand.tokens
WHERE ctid = ANY (ARRAY(
    SELECT t.ctid
    FROM errand.tokens t
    CROSS JOIN (SELECT errand.nanoseconds(clock_timestamp()) AS ns) AS now
    LEFT JOIN errand.rules q ON q.queue = t.queue AND q.job_group = ''
    LEFT JOIN errand.rules g ON g.queue = t.queue AND g.job_group = t.job_group AND g.group_rate_jobs <> 0
    CROSS JOIN LATERAL (
        SELECT
            CASE WHEN t.job_group = '' THEN q.rate_each
                WHEN g.queue IS NULL THEN q.group_rate_each ELSE g.group_rate_each END AS each,
            CASE WHEN t.job_group = '' THEN q.rate_most
                WHEN g.queue IS NULL THEN q.group_rate_most ELSE g.group_rate_most END AS most
    ) AS r
    WHERE t.until <= now.ns
        AND CASE
            WHEN r.each IS NULL THEN true
            WHEN t.each IN (0, r.each) -- as bucket_full, without a call for each of many buckets
                THEN greatest(t.full_at, CASE WHEN t.until > 0 THEN t.until + (r.most - 1) * r.each END) <= now.ns
            ELSE errand.bucket_full(t.queue, t.job_group, r.each, r.most, now.ns) <= now.ns END
    LIMIT 1000
    FOR UPDATE OF t SKIP LOCKED));
