-- Sets the rule of queue ?1 and group ?2: ?3 paused, ?4 running, ?5 per_group, ?6 share, ?7 hold_dead.
INSERT INTO errand_rules (queue, job_group, paused, running, per_group, share, hold_dead)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (queue, job_group) DO UPDATE
SET paused = excluded.paused, running = excluded.running, per_group = excluded.per_group, share = excluded.share,
    hold_dead = excluded.hold_dead;
