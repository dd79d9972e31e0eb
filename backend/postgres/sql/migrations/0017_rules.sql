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

-- lock_group locks due jobs of one group, at most max_jobs, and returns their places in order. Like lock_due it reads
-- priority by priority, so jobs that are scheduled for later cost nothing. kinds is NULL for all.
-- '' is the group of the jobs that have none. They have no index of their own, so it finds them only among the first
-- thousand jobs of the queue.
-- Index: jobs_group_idx, jobs_pending_idx.
CREATE FUNCTION errand.lock_group(queue_name text, group_name text, kinds text[], max_jobs integer) RETURNS tid[]
LANGUAGE plpgsql AS $$
DECLARE
    locked tid[] := '{}';
    head   record; -- the first job of one priority
BEGIN
    IF group_name = '' THEN
        RETURN ARRAY(
            SELECT l.ctid
            FROM (
                SELECT p.ctid AS place, p.job_group, p.kind, p.scheduled_at
                FROM errand.jobs p
                WHERE p.queue = queue_name AND p.status = 'pending'
                ORDER BY p.priority, p.scheduled_at, p.id
                LIMIT 1000
            ) AS f
            CROSS JOIN LATERAL (
                SELECT j.ctid FROM errand.jobs j WHERE j.ctid = f.place AND j.status = 'pending' FOR UPDATE SKIP LOCKED
            ) AS l
            WHERE f.job_group IS NULL AND f.scheduled_at <= clock_timestamp() AND (kinds IS NULL OR f.kind = ANY (kinds))
            LIMIT max_jobs
        );
    END IF;
    SELECT p.priority, p.scheduled_at, p.id INTO head
    FROM errand.jobs p
    WHERE p.queue = queue_name AND p.job_group = group_name AND p.ordered IS NULL AND p.status = 'pending'
    ORDER BY p.priority, p.scheduled_at, p.id
    LIMIT 1;
    WHILE FOUND LOOP
        IF head.scheduled_at <= clock_timestamp() THEN
            locked := locked || ARRAY(
                SELECT p.ctid
                FROM errand.jobs p
                WHERE p.queue = queue_name AND p.job_group = group_name AND p.ordered IS NULL AND p.status = 'pending'
                    AND p.priority = head.priority AND p.scheduled_at <= clock_timestamp()
                    AND (kinds IS NULL OR p.kind = ANY (kinds))
                ORDER BY p.priority, p.scheduled_at, p.id
                LIMIT max_jobs - cardinality(locked)
                FOR UPDATE SKIP LOCKED
            );
            EXIT WHEN cardinality(locked) = max_jobs;
        END IF;
        SELECT p.priority, p.scheduled_at, p.id INTO head
        FROM errand.jobs p
        WHERE p.queue = queue_name AND p.job_group = group_name AND p.ordered IS NULL AND p.status = 'pending'
            AND p.priority > head.priority
        ORDER BY p.priority, p.scheduled_at, p.id
        LIMIT 1;
    END LOOP;
    RETURN locked;
END
$$;

-- lock_turns locks due jobs, at most room, in the turns of their groups. The first turn is that of the first group
-- behind after_group, by name; jobs without a group have theirs behind the last group. Each turn is as long as the
-- share of the group. If all groups have had a turn and there is room left, the groups with more jobs share it. It
-- looks at a thousand groups at most.
-- per_group and share are the queue's rule. unmarked has the group of each job that runs and is not in
-- jobs_limited_idx. last_group is the group behind which the next claim begins. held_back tells that a group was full.
-- One query goes from group to group, with a look-up each. It locks jobs of the group's first priority only; where that
-- is not enough, lock_group looks at the others.
-- Index: jobs_group_idx, jobs_limited_idx.
CREATE FUNCTION errand.lock_turns(
    queue_name  text,
    kinds       text[],
    room        integer,
    per_group   integer,
    share       integer,
    unmarked    text[],
    after_group text,
    OUT places     tid[],
    OUT last_group text,
    OUT held_back  boolean
) LANGUAGE plpgsql AS $$
DECLARE
    visited    integer := 0;
    turn       record;
    got        tid[];
    again      text[] := '{}';    -- the groups that may have more jobs
    taken      integer[] := '{}'; -- how many were locked of each
    free       integer[] := '{}'; -- how many more of each may run
    shares     integer[] := '{}';
    all_shares bigint;
    most       integer;
BEGIN
    places := '{}';
    last_group := after_group;
    held_back := false;
    FOR part IN 1 .. 2 LOOP -- behind after_group, and up to it
        FOR turn IN
            WITH RECURSIVE heads (job_group, priority, due, nth) AS (
                (
                    SELECT p.job_group, p.priority, p.scheduled_at, 1
                    FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group > CASE part WHEN 1 THEN after_group ELSE '' END
                        AND p.job_group IS NOT NULL AND p.ordered IS NULL AND p.status = 'pending'
                    ORDER BY p.job_group, p.priority, p.scheduled_at, p.id
                    LIMIT 1
                )
                UNION ALL
                SELECT n.job_group, n.priority, n.scheduled_at, h.nth + 1
                FROM heads h
                CROSS JOIN LATERAL (
                    SELECT p.job_group, p.priority, p.scheduled_at
                    FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group > h.job_group
                        AND p.job_group IS NOT NULL AND p.ordered IS NULL AND p.status = 'pending'
                    ORDER BY p.job_group, p.priority, p.scheduled_at, p.id
                    LIMIT 1
                ) AS n
                WHERE h.nth < 1000
            )
            SELECT h.job_group, f.free, s.share, d.places
            FROM heads h
            CROSS JOIN LATERAL (
                SELECT
                    coalesce(bool_or(r.paused), false) AS paused,
                    coalesce(nullif(max(r.per_group), 0), lock_turns.per_group) AS most,
                    greatest(coalesce(nullif(max(r.share), 0), lock_turns.share), 1) AS share
                FROM errand.rules r
                WHERE r.queue = queue_name AND r.job_group = h.job_group
            ) AS s
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN s.paused THEN 0
                    WHEN s.most <= 0 THEN 1000000
                    ELSE s.most - (SELECT count(*) FROM unnest(unmarked) AS u (job_group) WHERE u.job_group = h.job_group) - (
                        SELECT count(*) FROM (
                            SELECT FROM errand.jobs r
                            WHERE r.queue = queue_name AND r.job_group = h.job_group AND r.limited AND r.status = 'running'
                            LIMIT s.most
                        ) AS runs)
                    END::integer AS free
            ) AS f
            CROSS JOIN LATERAL (
                SELECT CASE WHEN f.free > 0 AND h.due <= clock_timestamp() THEN ARRAY(
                    SELECT p.ctid
                    FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group = h.job_group AND p.ordered IS NULL AND p.status = 'pending'
                        AND p.priority = h.priority AND p.scheduled_at <= clock_timestamp()
                        AND (kinds IS NULL OR p.kind = ANY (kinds))
                    ORDER BY p.priority, p.scheduled_at, p.id
                    LIMIT least(f.free, s.share)
                    FOR UPDATE SKIP LOCKED
                ) ELSE '{}' END AS places
            ) AS d
            WHERE part = 1 OR h.job_group <= after_group
        LOOP
            visited := visited + 1;
            last_group := turn.job_group;
            most := least(turn.free, turn.share, room);
            IF most <= 0 THEN
                held_back := true;
            ELSE
                got := turn.places[1:most];
                IF cardinality(got) < most THEN
                    got := errand.lock_group(queue_name, turn.job_group, kinds, most);
                END IF;
                places := places || got;
                room := room - cardinality(got);
                IF cardinality(got) = most AND turn.free > most THEN
                    again := again || turn.job_group::text;
                    taken := taken || most;
                    free := free || turn.free;
                    shares := shares || turn.share;
                END IF;
            END IF;
            EXIT WHEN room = 0 OR visited >= 1000 OR part = 2 AND turn.job_group >= after_group;
        END LOOP;
        EXIT WHEN room = 0 OR visited >= 1000;
        IF part = 1 THEN
            visited := visited + 1;
            last_group := '';
            most := least(share, room);
            got := errand.lock_group(queue_name, '', kinds, most);
            places := places || got;
            room := room - cardinality(got);
            IF cardinality(got) = most THEN
                again := again || ''::text;
                taken := taken || most;
                free := free || 1000000;
                shares := shares || share;
            END IF;
            EXIT WHEN room = 0 OR after_group = '';
        END IF;
    END LOOP;
    WHILE room > 0 AND cardinality(again) > 0 LOOP
        SELECT sum(s) INTO all_shares FROM unnest(shares) AS s;
        most := room;
        FOR i IN 1 .. cardinality(again) LOOP
            -- The jobs that were locked before come first again: only the others are new.
            got := errand.lock_group(queue_name, again[i], kinds,
                least(free[i], taken[i] + least(greatest(most * shares[i]::bigint / all_shares, shares[i]), room)::integer));
            places := places || got[taken[i] + 1:];
            room := room - greatest(cardinality(got) - taken[i], 0);
            EXIT WHEN room = 0;
            IF cardinality(got) > taken[i] AND cardinality(got) < free[i] THEN
                taken[i] := cardinality(got);
            ELSE
                shares[i] := 0; -- the group has no more jobs for this claim
            END IF;
        END LOOP;
        SELECT
            array_agg(a.job_group ORDER BY a.nth), array_agg(a.taken ORDER BY a.nth), array_agg(a.free ORDER BY a.nth),
            array_agg(a.share ORDER BY a.nth)
        INTO again, taken, free, shares
        FROM unnest(again, taken, free, shares) WITH ORDINALITY AS a (job_group, taken, free, share, nth)
        WHERE a.share > 0;
    END LOOP;
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

-- claim_limited claims due jobs of one limited queue, and keeps its rules. Claims of a queue go one at a time: each
-- waits for the advisory lock, and then looks with a snapshot of its own, which shows what the claim before has taken.
-- In one plain statement the snapshot would be older than the lock, and limits would be exceeded.
-- Parameters and columns are those of claim.sql. after_group is the group behind which the turns begin. The last row is
-- no job: its id is 0, its job_group is where the turns of the next claim begin, its job_key where those of ordered jobs
-- do, and its attempts are 1 if a limit kept jobs from being claimed. Ordered jobs come after the others.
-- The settings are those of lock_due, for the same reasons.
CREATE FUNCTION errand.claim_limited(
    queue_name    text,
    kinds         text[],
    max_jobs      integer,
    lease         bigint,
    worker        text,
    longest       bigint,
    known_version bigint,
    after_group   text,
    after_ordered text
) RETURNS TABLE (
    id bigint, queue text, kind text, payload jsonb, priority integer, scheduled_at timestamptz, attempts integer,
    max_attempts integer, fence bigint, created_at timestamptz, job_key text, headers jsonb, last_error text, job_group text
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off AS $$
#variable_conflict use_column
DECLARE
    usual_timeout CONSTANT text := current_setting('lock_timeout');
    rule          record;
    has_turns     boolean;
    unmarked      text[] := '{}';
    runs          integer;
    room          integer := max_jobs;
    drawn         bigint;
    at            timestamptz;
    found_jobs    record;
    places        tid[] := '{}';
    held_back     boolean := false;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN -- one snapshot for all: limits would not hold
        RAISE EXCEPTION 'errand: a claim under rules needs READ COMMITTED' USING ERRCODE = 'serialization_failure';
    END IF;
    PERFORM set_config('lock_timeout', '1s', true);
    PERFORM pg_advisory_xact_lock('errand.rules'::regclass::integer, hashtext(queue_name));
    PERFORM set_config('lock_timeout', '1ms', true);
    IF (SELECT v.version FROM errand.rules_version v) <> known_version THEN
        PERFORM errand.rules_changed();
    END IF;
    SELECT r.paused, r.running, r.per_group, r.share INTO rule
    FROM errand.rules r WHERE r.queue = queue_name AND r.job_group = '';
    has_turns := coalesce(rule.per_group > 0 OR rule.share > 0, false)
        OR EXISTS (SELECT FROM errand.rules r WHERE r.queue = queue_name AND r.job_group > '');
    IF EXISTS (SELECT FROM errand.limited_queues l WHERE l.queue = queue_name AND NOT l.marked) THEN
        unmarked := errand.mark_limited(queue_name);
    END IF;
    IF rule.running > 0 THEN
        SELECT count(*) INTO runs FROM (
            SELECT FROM errand.jobs j WHERE j.queue = queue_name AND j.limited AND j.status = 'running' LIMIT rule.running
        ) AS r;
        room := least(room, rule.running - runs - cardinality(unmarked));
        held_back := room <= 0;
    END IF;
    IF coalesce(rule.paused, false) THEN
        room := 0;
        held_back := false; -- until the rule changes, which wakes workers
    END IF;
    IF room > 0 AND has_turns THEN
        SELECT * INTO found_jobs FROM errand.lock_turns(queue_name, kinds, room, coalesce(rule.per_group, 0),
            greatest(rule.share, 1), unmarked, after_group);
        places := found_jobs.places;
        after_group := found_jobs.last_group;
        held_back := found_jobs.held_back;
    ELSIF room > 0 THEN
        places := errand.lock_due(ARRAY[queue_name], kinds, room, '1ms', last_priority => ARRAY[2147483646]);
    END IF;
    room := room - cardinality(places);
    IF room > 0 AND EXISTS (
        SELECT FROM errand.jobs j WHERE j.queue = queue_name AND j.ordered AND j.status IN ('pending', 'held')
    ) THEN
        SELECT * INTO found_jobs FROM errand.lock_ordered(queue_name, kinds, room, after_ordered, '1ms');
        after_ordered := found_jobs.last_group;
        held_back := true; -- the end of an ordered job wakes no worker but its own
        places := places || ARRAY(
            SELECT j.ctid
            FROM errand.jobs j
            CROSS JOIN LATERAL (
                SELECT coalesce(nullif(max(r.per_group), 0), rule.per_group, 0) AS most
                FROM errand.rules r
                WHERE r.queue = queue_name AND r.job_group = j.job_group
            ) AS s
            WHERE j.ctid = ANY (found_jobs.places) AND (s.most <= 0 OR s.most > (
                SELECT count(*) FROM errand.jobs r
                WHERE r.queue = queue_name AND r.job_group = j.job_group AND r.limited AND r.status = 'running'
            ) + (SELECT count(*) FROM unnest(unmarked) AS u (job_group) WHERE u.job_group = j.job_group)
            + (SELECT count(*) FROM errand.jobs l WHERE l.ctid = ANY (places) AND l.job_group = j.job_group))
        );
    END IF;
    PERFORM set_config('lock_timeout', usual_timeout, true);
    IF cardinality(places) > 0 THEN
        drawn := nextval('errand.fences');
        at := clock_timestamp();
        RETURN QUERY
        UPDATE errand.jobs AS j
        SET
            status = 'running',
            attempts = least(j.attempts, 1999999999) + 1,
            fence = drawn,
            locked_at = at,
            locked_by = worker,
            locked_until = at + lease * interval '1 microsecond',
            updated_at = at,
            started_at = at,
            finished_at = NULL,
            limited = true
        WHERE j.ctid = ANY (places)
        RETURNING
            j.id, j.queue, j.kind,
            CASE WHEN pg_column_size(j.payload) <= longest AND coalesce(pg_column_size(j.headers) <= longest, true)
                THEN j.payload END,
            j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts, j.fence,
            least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(j.job_key, ''),
            CASE WHEN pg_column_size(j.headers) <= longest THEN j.headers END, coalesce(left(j.last_error, 8192), ''),
            coalesce(j.job_group, '');
    END IF;
    RETURN QUERY SELECT
        0::bigint, '', '', 'null'::jsonb, 0, at, held_back::integer, 0, 0::bigint, at, after_ordered, NULL::jsonb, '',
        after_group
    FROM (SELECT clock_timestamp() AS at) AS now;
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
