-- The rules of limited queues. job_group is '' for the rule of the queue itself. See queue.Rule.
CREATE TABLE errand.rules (
    queue     text COLLATE "C" NOT NULL,
    job_group text COLLATE "C" NOT NULL,
    paused    boolean NOT NULL,
    running   integer NOT NULL, -- 0 for any number
    per_group integer NOT NULL, -- 0 for any number, or for the queue's; -1 for any number
    share     integer NOT NULL, -- 0 for 1, or for the queue's
    hold_dead boolean NOT NULL DEFAULT false, -- an ordered job that would be dead is held; in rules of queues only
    -- rate_jobs jobs in rate_per nanoseconds, 0 for a second, and rate_burst at once, 0 for those of a tenth of a
    -- second. rate_jobs is 0 for no rate; group_rate_jobs of a group is 0 for the queue's, and below 0 for none.
    -- rate_each is how many nanoseconds a token takes, and rate_most how many tokens there are at most; NULL for no rate.
    rate_jobs        integer NOT NULL DEFAULT 0,
    rate_per         bigint NOT NULL DEFAULT 0,
    rate_burst       integer NOT NULL DEFAULT 0,
    group_rate_jobs  integer NOT NULL DEFAULT 0,
    group_rate_per   bigint NOT NULL DEFAULT 0,
    group_rate_burst integer NOT NULL DEFAULT 0,
    rate_each bigint GENERATED ALWAYS AS (CASE WHEN rate_jobs > 0
        THEN (coalesce(nullif(rate_per, 0), 1000000000) + rate_jobs - 1) / rate_jobs END) STORED,
    rate_most bigint GENERATED ALWAYS AS (CASE WHEN rate_jobs > 0
        THEN coalesce(nullif(rate_burst, 0),
            greatest(rate_jobs * 100000000::bigint / coalesce(nullif(rate_per, 0), 1000000000), 1)) END) STORED,
    group_rate_each bigint GENERATED ALWAYS AS (CASE WHEN group_rate_jobs > 0
        THEN (coalesce(nullif(group_rate_per, 0), 1000000000) + group_rate_jobs - 1) / group_rate_jobs END) STORED,
    group_rate_most bigint GENERATED ALWAYS AS (CASE WHEN group_rate_jobs > 0
        THEN coalesce(nullif(group_rate_burst, 0),
            greatest(group_rate_jobs * 100000000::bigint / coalesce(nullif(group_rate_per, 0), 1000000000), 1)) END) STORED,
    -- Whether claims have to keep it. A queue is limited if one of its rules is a limit. See queue.Rule.IsLimit.
    is_limit boolean GENERATED ALWAYS AS (
        paused OR running > 0 OR per_group <> 0 OR share > 0 OR rate_jobs <> 0 OR group_rate_jobs <> 0) STORED,
    PRIMARY KEY (queue, job_group)
);
CREATE INDEX rules_rates_idx ON errand.rules (queue) WHERE rate_jobs > 0 OR group_rate_jobs > 0;

-- One row for each limited queue. Jobs that a claim takes under rules are marked as limited. Until marked is
-- true, jobs of the queue may run that were claimed before it had rules, and have no mark yet.
CREATE TABLE errand.limited_queues (
    queue  text COLLATE "C" PRIMARY KEY,
    since  timestamptz, -- when the first claim knew the rules; the transaction that set them may have begun long before
    marked boolean NOT NULL DEFAULT false
);

-- Every change of the rules counts it up. Claims name the version that they know.
CREATE TABLE errand.rules_version (version bigint NOT NULL);
INSERT INTO errand.rules_version (version) VALUES (0);

-- The bucket of each rate that is not full: that of a group, or of the queue for ''. Times are nanoseconds since 1970.
-- Claims of the queue move them, one claim at a time, and queue.Throttled does. No index has a column that changes.
CREATE TABLE errand.tokens (
    queue     text COLLATE "C",
    job_group text COLLATE "C",
    at        bigint NOT NULL DEFAULT 0, -- when it was last spent from
    full_at   bigint NOT NULL DEFAULT 0, -- when it is full again if nothing is spent
    each      bigint NOT NULL DEFAULT 0, -- how long a token took at that time
    until     bigint NOT NULL DEFAULT 0, -- there is no token before
    PRIMARY KEY (queue, job_group)
) WITH (fillfactor = 50);

-- The kinds of which workers claim no jobs (queue.Pauser).
CREATE TABLE errand.paused_kinds (
    kind  text COLLATE "C" PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT now()
);

-- apply_rules is the end of each change of rules of these queues. It removes the rules that say nothing, notes which of
-- the queues are limited and, if wake, wakes sleeping workers of the queues.
CREATE FUNCTION errand.apply_rules(queues text[], wake boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM errand.rules r WHERE r.queue = ANY (queues) AND NOT r.is_limit AND NOT r.hold_dead;
    DELETE FROM errand.limited_queues l
    WHERE l.queue = ANY (queues) AND NOT EXISTS (SELECT FROM errand.rules r WHERE r.queue = l.queue AND r.is_limit);
    INSERT INTO errand.limited_queues (queue)
    SELECT DISTINCT r.queue FROM errand.rules r WHERE r.queue = ANY (queues) AND r.is_limit
    ON CONFLICT DO NOTHING;
    PERFORM pg_notify('errand', q.queue)
    FROM (SELECT DISTINCT u.queue FROM unnest(queues) AS u (queue)) AS q
    WHERE wake AND EXISTS (
        SELECT FROM errand.sleepers s WHERE s.queue = q.queue AND s.since > statement_timestamp() - interval '1 minute');
END
$$;

-- set_rules sets one rule for each element of the arrays. No queue and group may occur twice. It waits for other
-- transactions that change rules, and then sees what they have done. It ends no pause: a program that sets its rules at
-- each start resumes nothing. If wake, it wakes sleeping workers of the queues. See queue.Ruler.
CREATE FUNCTION errand.set_rules(
    queues           text[],
    groups           text[],
    paused           boolean[],
    running          integer[],
    per_group        integer[],
    share            integer[],
    hold_dead        boolean[],
    rate_jobs        integer[],
    rate_per         bigint[],
    rate_burst       integer[],
    group_rate_jobs  integer[],
    group_rate_per   bigint[],
    group_rate_burst integer[],
    wake             boolean
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE errand.rules_version SET version = version + 1;
    INSERT INTO errand.rules AS r (
        queue, job_group, paused, running, per_group, share, hold_dead, rate_jobs, rate_per, rate_burst, group_rate_jobs,
        group_rate_per, group_rate_burst)
    SELECT * FROM unnest(
        queues, groups, set_rules.paused, set_rules.running, set_rules.per_group, set_rules.share, set_rules.hold_dead,
        set_rules.rate_jobs, set_rules.rate_per, set_rules.rate_burst, set_rules.group_rate_jobs,
        set_rules.group_rate_per, set_rules.group_rate_burst)
    ON CONFLICT (queue, job_group) DO UPDATE
    SET paused = r.paused OR excluded.paused, running = excluded.running, per_group = excluded.per_group,
        share = excluded.share, hold_dead = excluded.hold_dead, rate_jobs = excluded.rate_jobs,
        rate_per = excluded.rate_per, rate_burst = excluded.rate_burst, group_rate_jobs = excluded.group_rate_jobs,
        group_rate_per = excluded.group_rate_per, group_rate_burst = excluded.group_rate_burst;
    PERFORM errand.apply_rules(queues, wake);
END
$$;

-- pause_rule pauses a queue, or a group of it if job_group is not '', or resumes it, and changes nothing else of its
-- rule. It waits for other transactions that change rules. If wake, it wakes sleeping workers of the queue.
CREATE FUNCTION errand.pause_rule(queue text, job_group text, paused boolean, wake boolean) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE errand.rules_version SET version = version + 1;
    INSERT INTO errand.rules (queue, job_group, paused, running, per_group, share)
    VALUES (pause_rule.queue, pause_rule.job_group, pause_rule.paused, 0, 0, 0)
    ON CONFLICT (queue, job_group) DO UPDATE SET paused = excluded.paused;
    PERFORM errand.apply_rules(ARRAY[pause_rule.queue], pause_rule.wake);
END
$$;
