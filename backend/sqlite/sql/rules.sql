-- Returns all rules, ordered by queue and group.
SELECT
    queue, job_group, paused, running, per_group, share, hold_dead, rate_jobs, rate_per, rate_burst, group_rate_jobs,
    group_rate_per, group_rate_burst
FROM errand_rules
ORDER BY queue, job_group;
