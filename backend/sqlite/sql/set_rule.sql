-- Sets the rule of queue ?1 and group ?2: ?3 paused, ?4 running, ?5 per_group, ?6 share.
INSERT INTO errand_rules (queue, job_group, paused, running, per_group, share) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (queue, job_group) DO UPDATE
SET paused = excluded.paused, running = excluded.running, per_group = excluded.per_group, share = excluded.share;
