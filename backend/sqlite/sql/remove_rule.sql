-- Removes the rule of queue ?1 and group ?2 if it says nothing. See queue.Rule.IsZero.
DELETE FROM errand_rules
WHERE queue = ?1 AND job_group = ?2 AND NOT paused AND running = 0 AND per_group = 0 AND share = 0 AND NOT hold_dead
    AND rate_jobs = 0 AND group_rate_jobs = 0;
