-- Sets the rule of queue ?1 and group ?2: ?3 paused, ?4 running, ?5 per_group, ?6 share, ?7 hold_dead, ?8 to ?10 jobs,
-- per and burst of its rate, ?11 to ?13 the same of its groups' rate. A rule that is paused stays paused.
INSERT INTO errand_rules (
    queue, job_group, paused, running, per_group, share, hold_dead, rate_jobs, rate_per, rate_burst, group_rate_jobs,
    group_rate_per, group_rate_burst)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (queue, job_group) DO UPDATE
SET paused = paused OR excluded.paused, running = excluded.running, per_group = excluded.per_group, share = excluded.share,
    hold_dead = excluded.hold_dead, rate_jobs = excluded.rate_jobs, rate_per = excluded.rate_per,
    rate_burst = excluded.rate_burst, group_rate_jobs = excluded.group_rate_jobs,
    group_rate_per = excluded.group_rate_per, group_rate_burst = excluded.group_rate_burst;
