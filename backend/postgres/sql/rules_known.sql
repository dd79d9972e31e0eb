-- Returns the version of the rules, and the limited queues: one row for each, or one with NULL if there is none. The last
-- column tells whether a rule of the queue bounds how many jobs run or start: then it is not claimed ahead.
SELECT
    v.version, l.queue,
    EXISTS (
        SELECT FROM errand.rules r
        WHERE r.queue = l.queue AND (r.running > 0 OR r.per_group > 0 OR r.rate_jobs > 0 OR r.group_rate_jobs > 0)
    )
FROM errand.rules_version v
LEFT JOIN errand.limited_queues l ON true;
