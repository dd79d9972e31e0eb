-- The rules of limited queues. job_group is '' for the rule of the queue itself. See queue.Rule.
CREATE TABLE errand.rules (
    queue     text COLLATE "C" NOT NULL,
    job_group text COLLATE "C" NOT NULL,
    paused    boolean NOT NULL,
    running   integer NOT NULL, -- 0 for any number
    per_group integer NOT NULL, -- 0 for any number, or for the queue's; -1 for any number
    share     integer NOT NULL, -- 0 for 1, or for the queue's
    PRIMARY KEY (queue, job_group)
);

-- One row for each queue that has rules. Jobs that a claim takes under rules are marked as limited. Until marked is
-- true, jobs of the queue may run that were claimed before it had rules, and have no mark yet.
CREATE TABLE errand.limited_queues (
    queue  text COLLATE "C" PRIMARY KEY,
    since  timestamptz, -- when the first claim knew the rules; the transaction that set them may have begun long before
    marked boolean NOT NULL DEFAULT false
);

-- Every change of the rules counts it up. Claims name the version that they know.
CREATE TABLE errand.rules_version (version bigint NOT NULL);
INSERT INTO errand.rules_version (version) VALUES (0);

-- No column has a default, so the server writes no row for it.
ALTER TABLE errand.jobs ADD COLUMN limited boolean; -- true if the job was claimed under rules; else NULL
ALTER TABLE errand.jobs_archive ADD COLUMN limited boolean;

-- For counting what runs in limited queues. Other jobs are not in it and cost nothing more.
CREATE INDEX jobs_limited_idx ON errand.jobs (queue, job_group) WHERE limited AND status = 'running';

-- rules_changed makes a claim fail that does not know the latest rules.
CREATE FUNCTION errand.rules_changed() RETURNS tid[] LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'errand: the rules have changed, the claim is repeated' USING ERRCODE = 'ERUL1';
END
$$;

-- set_rules sets one rule for each element of the arrays, or removes it where removed is true. No queue and group may
-- occur twice. It waits for other transactions that set rules, and then sees what they have done. If wake, it wakes
-- sleeping workers of the queues.
CREATE FUNCTION errand.set_rules(
    queues    text[],
    groups    text[],
    removed   boolean[],
    paused    boolean[],
    running   integer[],
    per_group integer[],
    share     integer[],
    wake      boolean
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE errand.rules_version SET version = version + 1;
    DELETE FROM errand.rules r USING unnest(queues, groups, removed) AS n (queue, job_group, removed)
    WHERE n.removed AND r.queue = n.queue AND r.job_group = n.job_group;
    INSERT INTO errand.rules (queue, job_group, paused, running, per_group, share)
    SELECT n.queue, n.job_group, n.paused, n.running, n.per_group, n.share
    FROM unnest(queues, groups, removed, set_rules.paused, set_rules.running, set_rules.per_group, set_rules.share)
        AS n (queue, job_group, removed, paused, running, per_group, share)
    WHERE NOT n.removed
    ON CONFLICT (queue, job_group) DO UPDATE
    SET paused = excluded.paused, running = excluded.running, per_group = excluded.per_group, share = excluded.share;
    DELETE FROM errand.limited_queues l
    WHERE l.queue = ANY (queues) AND NOT EXISTS (SELECT FROM errand.rules r WHERE r.queue = l.queue);
    INSERT INTO errand.limited_queues (queue)
    SELECT DISTINCT r.queue FROM errand.rules r WHERE r.queue = ANY (queues)
    ON CONFLICT DO NOTHING;
    PERFORM pg_notify('errand', q.queue)
    FROM (SELECT DISTINCT u.queue FROM unnest(queues) AS u (queue)) AS q
    WHERE wake AND EXISTS (
        SELECT FROM errand.sleepers s WHERE s.queue = q.queue AND s.since > statement_timestamp() - interval '1 minute');
END
$$;

-- mark_limited marks the jobs of a queue that run and were claimed before it had rules, so that jobs_limited_idx has
-- them. It returns the groups ('' for none) of those that it could not mark, because a transaction has locked them. If
-- there is none, and there was none a minute before, no claim that knows no rules is under way any more, and it is never
-- called for the queue again.
-- Index: jobs_running_idx.
CREATE FUNCTION errand.mark_limited(queue_name text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    unmarked text[];
BEGIN
    UPDATE errand.jobs j SET limited = true
    WHERE j.ctid = ANY (ARRAY(
        SELECT r.ctid FROM errand.jobs r
        WHERE r.status = 'running' AND r.queue = queue_name AND r.limited IS NULL
        FOR NO KEY UPDATE SKIP LOCKED));
    unmarked := ARRAY(
        SELECT coalesce(r.job_group, '') FROM errand.jobs r
        WHERE r.status = 'running' AND r.queue = queue_name AND r.limited IS NULL);
    IF cardinality(unmarked) = 0 THEN
        UPDATE errand.limited_queues l SET marked = l.since IS NOT NULL, since = coalesce(l.since, clock_timestamp())
        WHERE l.ctid = ANY (ARRAY(
            SELECT q.ctid FROM errand.limited_queues q
            WHERE q.queue = queue_name AND coalesce(q.since < clock_timestamp() - interval '1 minute', true)
            FOR NO KEY UPDATE SKIP LOCKED));
    END IF;
    RETURN unmarked;
END
$$;

-- lock_ordered passes over groups that are paused.
DO $$
DECLARE
    definition text := pg_get_functiondef('errand.lock_ordered'::regproc);
BEGIN
    definition := replace(definition, 'r.ordered AND r.status = ''running''
                        ) AS is_due', 'r.ordered AND r.status = ''running''
                        )
                        AND NOT EXISTS (
                            SELECT FROM errand.rules x
                            WHERE x.queue = queue_name AND x.job_group = p.job_group AND x.paused
                        ) AS is_due');
    IF position('x.paused' IN definition) = 0 THEN
        RAISE EXCEPTION 'errand: lock_ordered is not as migration 15 has made it';
    END IF;
    EXECUTE definition;
END
$$;
