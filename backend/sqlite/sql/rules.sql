-- Returns all rules, ordered by queue and group.
SELECT queue, job_group, paused, running, per_group, share, hold_dead FROM errand_rules ORDER BY queue, job_group;
