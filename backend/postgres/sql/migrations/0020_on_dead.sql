-- hold_dead: an ordered job of the queue that would be dead is held. See queue.OnDead. It is in rules of queues only.
ALTER TABLE errand.rules ADD COLUMN hold_dead boolean NOT NULL DEFAULT false;

-- set_rules takes hold_dead, too. A queue whose rule has nothing else is not limited. A function with other parameters
-- is another function.
DROP FUNCTION errand.set_rules;
CREATE FUNCTION errand.set_rules(
    queues    text[],
    groups    text[],
    removed   boolean[],
    paused    boolean[],
    running   integer[],
    per_group integer[],
    share     integer[],
    hold_dead boolean[],
    wake      boolean
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE errand.rules_version SET version = version + 1;
    DELETE FROM errand.rules r USING unnest(queues, groups, removed) AS n (queue, job_group, removed)
    WHERE n.removed AND r.queue = n.queue AND r.job_group = n.job_group;
    INSERT INTO errand.rules (queue, job_group, paused, running, per_group, share, hold_dead)
    SELECT n.queue, n.job_group, n.paused, n.running, n.per_group, n.share, n.hold_dead
    FROM unnest(queues, groups, removed, set_rules.paused, set_rules.running, set_rules.per_group, set_rules.share,
        set_rules.hold_dead) AS n (queue, job_group, removed, paused, running, per_group, share, hold_dead)
    WHERE NOT n.removed
    ON CONFLICT (queue, job_group) DO UPDATE
    SET paused = excluded.paused, running = excluded.running, per_group = excluded.per_group, share = excluded.share,
        hold_dead = excluded.hold_dead;
    WITH limits AS MATERIALIZED (
        SELECT DISTINCT r.queue FROM errand.rules r
        WHERE r.queue = ANY (queues)
            AND (r.job_group > '' OR r.paused OR r.running > 0 OR r.per_group > 0 OR r.share > 0)
    ), unlimited AS (
        DELETE FROM errand.limited_queues l WHERE l.queue = ANY (queues) AND l.queue NOT IN (SELECT queue FROM limits)
    )
    INSERT INTO errand.limited_queues (queue) SELECT queue FROM limits ON CONFLICT DO NOTHING;
    PERFORM pg_notify('errand', q.queue)
    FROM (SELECT DISTINCT u.queue FROM unnest(queues) AS u (queue)) AS q
    WHERE wake AND EXISTS (
        SELECT FROM errand.sleepers s WHERE s.queue = q.queue AND s.since > statement_timestamp() - interval '1 minute');
END
$$;
