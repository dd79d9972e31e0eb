-- How many of the 10,000 jobs whose leases are oldest have waited for much longer than their lease to be reclaimed, and
-- how many workers they had. Reclaim leaves a job that crashes again and again for up to three leases.
SELECT count(*), count(DISTINCT locked_by)
FROM (
    SELECT locked_at, locked_until, locked_by FROM errand.jobs WHERE status = 'running' ORDER BY locked_at LIMIT 10000
) AS r
WHERE clock_timestamp() > CASE
    WHEN locked_until > locked_at THEN locked_until + 4 * (locked_until - locked_at)
    ELSE locked_at + interval '20 minutes' END
