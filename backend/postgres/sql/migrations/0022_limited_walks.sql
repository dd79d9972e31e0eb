-- How claim_limited finds jobs.

-- lock_group locks due jobs of one group, at most max_jobs, and returns their places in order. Like lock_due it reads
-- priority by priority, so jobs that are scheduled for later cost nothing. kinds is NULL for all. Of each priority it
-- passes over at most a hundred jobs that others have locked: to try a row takes ten times as long as to read it.
-- PL/pgSQL gives all text parameters the collation of the argument that has one. With the collation of job_group, the
-- comparison with queue would not match the index, so each call would read the whole index.
-- '' is the group of the jobs that have none. They have no index of their own, so it finds them only among the first
-- thousand due jobs of each priority.
-- Index: jobs_group_idx, jobs_pending_idx.
CREATE FUNCTION errand.lock_group(queue_name text, group_name text, kinds text[], max_jobs integer) RETURNS tid[]
LANGUAGE plpgsql AS $$
DECLARE
    lock_queue CONSTANT text COLLATE "default" := queue_name;
    lock_name  CONSTANT text COLLATE "C" := group_name;
    locked     tid[] := '{}';
    head       record; -- the first job of one priority
BEGIN
    IF lock_name = '' THEN
        SELECT p.priority, p.scheduled_at INTO head
        FROM errand.jobs p
        WHERE p.queue = lock_queue AND p.status = 'pending' AND p.priority < 2147483647
        ORDER BY p.priority, p.scheduled_at, p.id
        LIMIT 1;
        WHILE FOUND LOOP
            IF head.scheduled_at <= clock_timestamp() THEN
                locked := locked || ARRAY(
                    SELECT l.ctid
                    FROM (
                        SELECT p.ctid AS place, p.job_group, p.kind
                        FROM errand.jobs p
                        WHERE p.queue = lock_queue AND p.status = 'pending' AND p.priority = head.priority
                            AND p.scheduled_at <= clock_timestamp()
                        ORDER BY p.priority, p.scheduled_at, p.id
                        LIMIT 1000
                    ) AS f
                    CROSS JOIN LATERAL (
                        SELECT j.ctid FROM errand.jobs j
                        WHERE j.ctid = f.place AND j.status = 'pending'
                        FOR UPDATE SKIP LOCKED
                    ) AS l
                    WHERE f.job_group IS NULL AND (kinds IS NULL OR f.kind = ANY (kinds))
                    LIMIT max_jobs - cardinality(locked)
                );
                EXIT WHEN cardinality(locked) = max_jobs;
            END IF;
            SELECT p.priority, p.scheduled_at INTO head
            FROM errand.jobs p
            WHERE p.queue = lock_queue AND p.status = 'pending' AND p.priority > head.priority AND p.priority < 2147483647
            ORDER BY p.priority, p.scheduled_at, p.id
            LIMIT 1;
        END LOOP;
        RETURN locked;
    END IF;
    SELECT p.priority, p.scheduled_at, p.id INTO head
    FROM errand.jobs p
    WHERE p.queue = lock_queue AND p.job_group = lock_name AND p.ordered IS NULL AND p.status = 'pending'
    ORDER BY p.priority, p.scheduled_at, p.id
    LIMIT 1;
    WHILE FOUND LOOP
        IF head.scheduled_at <= clock_timestamp() THEN
            locked := locked || ARRAY(
                SELECT l.ctid
                FROM (
                    SELECT p.ctid AS place
                    FROM errand.jobs p
                    WHERE p.queue = lock_queue AND p.job_group = lock_name AND p.ordered IS NULL AND p.status = 'pending'
                        AND p.priority = head.priority AND p.scheduled_at <= clock_timestamp()
                        AND (kinds IS NULL OR p.kind = ANY (kinds))
                    ORDER BY p.priority, p.scheduled_at, p.id
                    LIMIT max_jobs - cardinality(locked) + 100
                ) AS f
                CROSS JOIN LATERAL (
                    SELECT j.ctid
                    FROM errand.jobs j
                    WHERE j.ctid = f.place AND j.status = 'pending' AND j.scheduled_at <= clock_timestamp()
                        AND (j.queue, j.job_group) IS NOT DISTINCT FROM (lock_queue, lock_name)
                    FOR UPDATE SKIP LOCKED
                ) AS l
                LIMIT max_jobs - cardinality(locked)
            );
            EXIT WHEN cardinality(locked) = max_jobs;
        END IF;
        SELECT p.priority, p.scheduled_at, p.id INTO head
        FROM errand.jobs p
        WHERE p.queue = lock_queue AND p.job_group = lock_name AND p.ordered IS NULL AND p.status = 'pending'
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
-- looks at a thousand groups at most; has_more tells that there may be others.
-- per_group and share are the queue's rule. unmarked has the group of each job that runs and is not in
-- jobs_limited_idx. last_group is the group behind which the next claim begins. held_back tells that a group was full.
-- each and most are the rate of each group in the queue's rule (see bucket_full), NULL for none. A group gets no more
-- jobs than it has tokens at now_ns; spend sees to those that cost more than one. wait is how long until the first group
-- without tokens has some, NULL if all have.
-- One query goes from group to group, with a look-up each. It locks jobs of the group's first priority only, and none if
-- the first job may be locked. Then, or if that is not enough and the group has other priorities, lock_group looks at
-- the group.
-- Index: jobs_group_idx, jobs_limited_idx.
CREATE FUNCTION errand.lock_turns(
    queue_name  text,
    kinds       text[],
    room        integer,
    per_group   integer,
    share       integer,
    unmarked    text[],
    after_group text,
    each        bigint,
    most_tokens bigint,
    now_ns      bigint,
    OUT places     tid[],
    OUT last_group text,
    OUT held_back  boolean,
    OUT has_more   boolean,
    OUT wait       bigint
) LANGUAGE plpgsql AS $$
DECLARE
    has_rules  CONSTANT boolean := EXISTS (SELECT FROM errand.rules r WHERE r.queue = queue_name AND r.job_group > '');
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
            WITH RECURSIVE heads (job_group, priority, due, was_locked, nth) AS (
                (
                    SELECT p.job_group, p.priority, p.scheduled_at, p.xmax <> '0', 1
                    FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group > CASE part WHEN 1 THEN after_group ELSE '' END
                        AND p.job_group IS NOT NULL AND p.ordered IS NULL AND p.status = 'pending'
                    ORDER BY p.job_group, p.priority, p.scheduled_at, p.id
                    LIMIT 1
                )
                UNION ALL
                SELECT n.job_group, n.priority, n.scheduled_at, n.was_locked, h.nth + 1
                FROM heads h
                CROSS JOIN LATERAL (
                    SELECT p.job_group, p.priority, p.scheduled_at, p.xmax <> '0' AS was_locked
                    FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group > h.job_group
                        AND p.job_group IS NOT NULL AND p.ordered IS NULL AND p.status = 'pending'
                    ORDER BY p.job_group, p.priority, p.scheduled_at, p.id
                    LIMIT 1
                ) AS n
                WHERE h.nth < 1000
            )
            SELECT h.job_group, h.priority, h.was_locked, f.free, s.share, d.places, t.wait
            FROM heads h
            CROSS JOIN LATERAL (
                SELECT
                    coalesce(bool_or(r.paused), false) AS paused,
                    coalesce(nullif(max(r.per_group), 0), lock_turns.per_group) AS most,
                    greatest(coalesce(nullif(max(r.share), 0), lock_turns.share), 1) AS share,
                    CASE WHEN coalesce(max(r.group_rate_jobs), 0) = 0 THEN lock_turns.each
                        ELSE max(r.group_rate_each) END AS each,
                    CASE WHEN coalesce(max(r.group_rate_jobs), 0) = 0 THEN lock_turns.most_tokens
                        ELSE max(r.group_rate_most) END AS most_tokens
                FROM errand.rules r
                WHERE has_rules AND r.queue = queue_name AND r.job_group = h.job_group
            ) AS s
            CROSS JOIN LATERAL (
                SELECT
                    least(greatest(now_ns + s.most_tokens * s.each - b.full_at, 0) / s.each, 1000000) AS tokens,
                    CASE WHEN now_ns + (s.most_tokens - 1) * s.each < b.full_at
                        THEN errand.bucket_wait(b.full_at, s.each, s.most_tokens, now_ns) END AS wait
                FROM (
                    SELECT CASE WHEN s.each IS NOT NULL
                        THEN errand.bucket_full(queue_name, h.job_group, s.each, s.most_tokens, now_ns) END AS full_at
                    OFFSET 0
                ) AS b
            ) AS t
            CROSS JOIN LATERAL (
                SELECT least(t.tokens, CASE
                    WHEN s.paused THEN 0
                    WHEN s.most <= 0 OR t.tokens <= 0 THEN 1000000
                    ELSE s.most - (SELECT count(*) FROM unnest(unmarked) AS u (job_group) WHERE u.job_group = h.job_group) - (
                        SELECT count(*) FROM (
                            SELECT FROM errand.jobs r
                            WHERE r.queue = queue_name AND r.job_group = h.job_group AND r.limited AND r.status = 'running'
                            LIMIT s.most
                        ) AS runs)
                    END)::integer AS free
            ) AS f
            CROSS JOIN LATERAL (
                SELECT CASE WHEN f.free > 0 AND h.due <= clock_timestamp() AND NOT h.was_locked THEN ARRAY(
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
            IF turn.wait IS NOT NULL THEN
                wait := least(wait, turn.wait);
            ELSIF most <= 0 THEN
                held_back := true;
            ELSE
                got := turn.places[1:most];
                IF cardinality(got) < most AND (turn.was_locked OR EXISTS (
                    SELECT FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group = turn.job_group AND p.ordered IS NULL AND p.status = 'pending'
                        AND p.priority > turn.priority
                )) THEN
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
    has_more := visited >= 1000 AND room > 0;
END
$$;
