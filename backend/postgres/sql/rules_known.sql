-- Returns the version of the rules, and the limited queues: one row for each, or one with NULL if there is none. The
-- last two columns tell whether a rule of the queue bounds how many jobs run or start: then it is not claimed ahead;
-- and whether its groups take turns, as in claim_limited.
-- OFFSET 0 keeps the look at the rules below the join. Above it the planner expects so many that it compiles the plan
-- (JIT), which takes 0.4 s.
SELECT v.version, l.queue, coalesce(l.is_bounded, false), coalesce(l.has_turns, false)
FROM errand.rules_version v
LEFT JOIN (
    SELECT
        q.queue,
        EXISTS (
            SELECT FROM errand.rules r
            WHERE r.queue = q.queue AND (r.running > 0 OR r.per_group > 0 OR r.rate_jobs > 0 OR r.group_rate_jobs > 0)
        ) AS is_bounded,
        EXISTS (
            SELECT FROM errand.rules r
            WHERE r.queue = q.queue AND (r.job_group > '' OR r.per_group > 0 OR r.share > 0 OR r.group_rate_each > 0)
        ) AS has_turns
    FROM errand.limited_queues q
    OFFSET 0
) AS l ON true;
