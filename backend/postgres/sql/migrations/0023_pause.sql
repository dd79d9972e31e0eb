-- A pause lasts until somebody ends it. See queue.Ruler.

-- set_rules ends no pause: a program that sets its rules at each start resumes nothing. It removes a rule that is
-- paused but for its pause.
CREATE OR REPLACE FUNCTION errand.set_rules(
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
    WHERE n.removed AND r.queue = n.queue AND r.job_group = n.job_group AND NOT r.paused;
    INSERT INTO errand.rules AS r (queue, job_group, paused, running, per_group, share, hold_dead)
    SELECT n.queue, n.job_group, n.paused, n.running, n.per_group, n.share, n.hold_dead
    FROM unnest(queues, groups, removed, set_rules.paused, set_rules.running, set_rules.per_group, set_rules.share,
        set_rules.hold_dead) AS n (queue, job_group, removed, paused, running, per_group, share, hold_dead)
    WHERE NOT n.removed
        OR EXISTS (SELECT FROM errand.rules p WHERE p.queue = n.queue AND p.job_group = n.job_group)
    ON CONFLICT (queue, job_group) DO UPDATE
    SET paused = r.paused OR excluded.paused, running = excluded.running, per_group = excluded.per_group, share = excluded.share,
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

-- pause_rule pauses a queue, or a group of it if job_group is not '', or resumes it, and changes nothing else of its
-- rule. It waits for other transactions that set rules. If wake, it wakes sleeping workers of the queue.
CREATE FUNCTION errand.pause_rule(queue text, job_group text, paused boolean, wake boolean) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE errand.rules_version SET version = version + 1;
    INSERT INTO errand.rules (queue, job_group, paused, running, per_group, share)
    VALUES (pause_rule.queue, pause_rule.job_group, pause_rule.paused, 0, 0, 0)
    ON CONFLICT (queue, job_group) DO UPDATE SET paused = excluded.paused;
    DELETE FROM errand.rules r -- if it says nothing more
    WHERE r.queue = pause_rule.queue AND r.job_group = pause_rule.job_group AND NOT r.paused AND r.running = 0
        AND r.per_group = 0 AND r.share = 0 AND NOT r.hold_dead AND r.rate_jobs = 0 AND r.group_rate_jobs = 0;
    IF EXISTS (
        SELECT FROM errand.rules r
        WHERE r.queue = pause_rule.queue
            AND (r.job_group > '' OR r.paused OR r.running > 0 OR r.per_group > 0 OR r.share > 0 OR r.rate_jobs > 0
                OR r.group_rate_jobs > 0)
    ) THEN
        INSERT INTO errand.limited_queues (queue) VALUES (pause_rule.queue) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM errand.limited_queues l WHERE l.queue = pause_rule.queue;
    END IF;
    IF pause_rule.wake AND EXISTS (
        SELECT FROM errand.sleepers s
        WHERE s.queue = pause_rule.queue AND s.since > statement_timestamp() - interval '1 minute'
    ) THEN
        PERFORM pg_notify('errand', pause_rule.queue);
    END IF;
END
$$;
