-- How limited queues are claimed: see claim_limited, at the end.

-- rules_changed makes a claim fail that does not know the latest rules.
CREATE FUNCTION errand.rules_changed() RETURNS tid[] LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'errand: the rules have changed, the claim is repeated' USING ERRCODE = 'ERUL1';
END
$$;

-- group_jobs returns the places of due jobs of one group and priority, at most max_jobs, in order. due is the time until
-- which jobs are due, and first_kind the kind of the first entry in the index. kinds is NULL for all. It leaps from kind
-- to kind, so jobs of kinds that are not in kinds cost nothing, nor do jobs that are scheduled for later.
-- The server puts its text into the statements that call it, so it costs no call. It would not if it were VOLATILE, or
-- locked rows. A parameter has the collation of the argument, which may not be that of the index.
-- With status = 'pending' the planner may walk jobs_pending_idx, and filter it by group and kind.
-- Index: jobs_group_idx.
CREATE FUNCTION errand.group_jobs(
    queue_name  text,
    group_name  text,
    of_priority integer,
    first_kind  text,
    kinds       text[],
    due         timestamptz,
    max_jobs    integer
) RETURNS TABLE (place tid) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE present (kind) AS (
        SELECT first_kind COLLATE "C"
        UNION ALL
        SELECT n.kind
        FROM present k
        CROSS JOIN LATERAL (
            SELECT p.kind COLLATE "C" AS kind
            FROM errand.jobs p
            WHERE p.queue = queue_name COLLATE "default" AND p.job_group = group_name COLLATE "C" AND p.ordered IS NULL
                AND p.status BETWEEN 'pending' AND 'pending'
                AND p.priority = of_priority AND p.kind COLLATE "C" > k.kind
                AND p.kind COLLATE "C" >= CASE WHEN kinds IS NULL OR k.kind = ANY (kinds) THEN '' ELSE (
                    SELECT min(w.kind COLLATE "C") FROM unnest(kinds) AS w (kind) WHERE w.kind COLLATE "C" > k.kind) END
            ORDER BY p.kind COLLATE "C", p.scheduled_at, p.id
            LIMIT 1
        ) AS n
    )
    SELECT d.place
    FROM present k
    CROSS JOIN LATERAL (
        SELECT p.ctid AS place, p.scheduled_at, p.id
        FROM errand.jobs p
        WHERE p.queue = queue_name COLLATE "default" AND p.job_group = group_name COLLATE "C" AND p.ordered IS NULL
            AND p.status BETWEEN 'pending' AND 'pending'
            AND p.priority = of_priority AND p.kind COLLATE "C" = k.kind AND p.scheduled_at <= due
        ORDER BY p.scheduled_at, p.id
        LIMIT max_jobs
    ) AS d
    WHERE kinds IS NULL OR k.kind = ANY (kinds)
    ORDER BY d.scheduled_at, d.id
    LIMIT max_jobs
$$;

-- lock_group locks due jobs of one group, at most max_jobs, and returns their places in order. It reads priority by
-- priority, with group_jobs. Of each priority it passes over at most a hundred jobs that others have locked: to try a
-- row takes ten times as long as to read it.
-- PL/pgSQL gives all text parameters the collation of the argument that has one. With the collation of job_group, the
-- comparison with queue would not match the index, so each call would read the whole index.
-- Index: jobs_group_idx.
CREATE FUNCTION errand.lock_group(queue_name text, group_name text, kinds text[], max_jobs integer) RETURNS tid[]
LANGUAGE plpgsql AS $$
DECLARE
    lock_queue CONSTANT text COLLATE "default" := queue_name;
    lock_name  CONSTANT text COLLATE "C" := group_name;
    due        CONSTANT timestamptz := clock_timestamp();
    locked     tid[] := '{}';
    before     tid[]; -- of more urgent priorities
    spare      integer;
    head       record; -- the first entry of one priority
BEGIN
    SELECT p.priority, p.kind INTO head
    FROM errand.jobs p
    WHERE p.queue = lock_queue AND p.job_group = lock_name AND p.ordered IS NULL
        AND p.status BETWEEN 'pending' AND 'pending'
    ORDER BY p.job_group, p.priority, p.kind COLLATE "C", p.scheduled_at, p.id
    LIMIT 1;
    WHILE FOUND LOOP
        before := locked;
        FOREACH spare IN ARRAY '{0, 100}'::integer[] LOOP -- the jobs that the first time has locked come first again
            locked := before || ARRAY(
                SELECT l.ctid
                FROM errand.group_jobs(lock_queue, lock_name, head.priority, head.kind, kinds, due,
                    max_jobs - cardinality(before) + spare) AS f
                CROSS JOIN LATERAL (
                    SELECT j.ctid
                    FROM errand.jobs j
                    WHERE j.ctid = f.place AND j.status = 'pending' AND j.scheduled_at <= due
                        AND (j.queue, j.job_group) IS NOT DISTINCT FROM (lock_queue, lock_name)
                    FOR UPDATE SKIP LOCKED
                ) AS l
                LIMIT max_jobs - cardinality(before)
            );
            EXIT WHEN cardinality(locked) = max_jobs;
        END LOOP;
        EXIT WHEN cardinality(locked) = max_jobs;
        SELECT p.priority, p.kind INTO head
        FROM errand.jobs p
        WHERE p.queue = lock_queue AND p.job_group = lock_name AND p.ordered IS NULL
            AND p.status BETWEEN 'pending' AND 'pending'
            AND p.priority > head.priority
        ORDER BY p.job_group, p.priority, p.kind COLLATE "C", p.scheduled_at, p.id
        LIMIT 1;
    END LOOP;
    RETURN locked;
END
$$;

-- lock_spans locks due jobs of the queue, at most max_jobs, and returns their places in order; if ungrouped, only jobs
-- without a group. spans are the parts of the queue that it reads, in their order. Each begins behind its priority, due
-- and id, and ends with the priority last and the due time until. It is read priority by priority, so jobs that are
-- scheduled for later cost nothing.
-- If spans is NULL, it reads the whole queue, but of no priority more than 2,500 due jobs. Where there are more, and
-- too few of them can be locked, it stops: then is_cut is true. The caller goes on with spans that leave out what
-- claims have seen (see ration.go).
-- Index: jobs_pending_idx.
CREATE FUNCTION errand.lock_spans(
    queue_name text,
    kinds      text[],
    max_jobs   integer,
    ungrouped  boolean,
    spans      jsonb,
    OUT places tid[],
    OUT is_cut boolean
) LANGUAGE plpgsql AS $$
DECLARE
    most_read CONSTANT integer := CASE WHEN spans IS NULL THEN 2500 END;
    span      record;
    head      record; -- the first job of one priority
BEGIN
    places := '{}';
    is_cut := false;
    FOR span IN
        SELECT
            coalesce(s.priority, -2147483648) AS priority, coalesce(s.due, '-infinity') AS due,
            coalesce(s.id, -9223372036854775808) AS id, least(s.last, 2147483646) AS last,
            least(s.until, clock_timestamp()) AS until
        FROM jsonb_to_recordset(coalesce(spans, '[{}]')) AS s (
            priority integer, due timestamptz, id bigint, last integer, until timestamptz)
    LOOP
        SELECT p.priority, p.scheduled_at, p.id INTO head
        FROM errand.jobs p
        WHERE p.queue = queue_name AND p.status = 'pending' AND p.priority <= span.last
            AND (p.priority, p.scheduled_at, p.id) > (span.priority, span.due, span.id)
        ORDER BY p.priority, p.scheduled_at, p.id
        LIMIT 1;
        WHILE FOUND LOOP
            IF head.scheduled_at <= span.until THEN
                places := places || ARRAY(
                    SELECT l.ctid
                    FROM (
                        SELECT p.ctid AS place, p.kind, p.job_group
                        FROM errand.jobs p
                        WHERE p.queue = queue_name AND p.status = 'pending' AND p.priority = head.priority
                            AND p.scheduled_at <= span.until AND (p.scheduled_at, p.id) >= (head.scheduled_at, head.id)
                        ORDER BY p.priority, p.scheduled_at, p.id
                        LIMIT most_read
                    ) AS f
                    CROSS JOIN LATERAL (
                        SELECT j.ctid
                        FROM errand.jobs j
                        WHERE j.ctid = f.place AND j.status = 'pending' AND j.queue = queue_name
                            AND j.scheduled_at <= span.until AND (j.job_group IS NULL OR NOT ungrouped)
                        FOR UPDATE SKIP LOCKED
                    ) AS l
                    WHERE (f.job_group IS NULL OR NOT ungrouped) AND (kinds IS NULL OR f.kind = ANY (kinds))
                    LIMIT max_jobs - cardinality(places)
                );
                IF cardinality(places) = max_jobs THEN
                    RETURN;
                END IF;
                IF most_read IS NOT NULL THEN
                    PERFORM FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.status = 'pending' AND p.priority = head.priority
                        AND p.scheduled_at <= span.until AND (p.scheduled_at, p.id) >= (head.scheduled_at, head.id)
                    ORDER BY p.priority, p.scheduled_at, p.id
                    OFFSET most_read LIMIT 1;
                    is_cut := FOUND;
                    IF is_cut THEN
                        RETURN;
                    END IF;
                END IF;
            END IF;
            SELECT p.priority, p.scheduled_at, p.id INTO head
            FROM errand.jobs p
            WHERE p.queue = queue_name AND p.status = 'pending'
                AND p.priority > head.priority AND p.priority <= span.last
            ORDER BY p.priority, p.scheduled_at, p.id
            LIMIT 1;
        END LOOP;
    END LOOP;
END
$$;

-- nanoseconds returns a time as nanoseconds since 1970.
CREATE FUNCTION errand.nanoseconds(at timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT (extract(epoch FROM at) * 1000000)::bigint * 1000
$$;

-- bucket_full returns when a bucket is full, at a rate of a token in each nanoseconds and most tokens at most: now_ns or
-- later. If the rate has changed since the bucket was last spent from, the new one counts from then on.
-- Index: tokens_pkey.
CREATE FUNCTION errand.bucket_full(queue_name text, bucket text, each bigint, most bigint, now_ns bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT greatest(now_ns, (
        SELECT greatest(
            CASE WHEN t.each IN (0, bucket_full.each) THEN t.full_at
                ELSE t.at + least((t.full_at - t.at)::double precision / t.each * bucket_full.each, 3153600000000000000)::bigint
            END,
            CASE WHEN t.until > 0 THEN t.until + (bucket_full.most - 1) * bucket_full.each END)
        FROM errand.tokens t
        WHERE t.queue = queue_name AND t.job_group = bucket))
$$;

-- bucket_wait returns how long until the bucket has a token. If waiting for a little longer loses no token, it is longer,
-- so that a claim finds several.
CREATE FUNCTION errand.bucket_wait(full_at bigint, each bigint, most bigint, now_ns bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(full_at - now_ns - (most - 1) * each, least(20000000, (full_at - now_ns) / 2), 1)
$$;

-- spend spends the tokens of jobs of a queue that are about to be claimed, in that order, and returns the places of those
-- for which there are enough. A job that costs more than a bucket holds needs a full one. queue_each and queue_most are
-- the rate of the queue, group_each and group_most that of each group in the queue's rule; NULL for none. hold is how
-- long until the queue's bucket has tokens for the next job, and wait the same for the first group; NULL if they have.
-- The caller has locked the queue's claims, so no other claim spends from these buckets.
CREATE FUNCTION errand.spend(
    queue_name text,
    all_places tid[],
    now_ns     bigint,
    queue_each bigint,
    queue_most bigint,
    group_each bigint,
    group_most bigint,
    OUT places tid[],
    OUT hold   bigint,
    OUT wait   bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
    WITH jobs AS MATERIALIZED (
        SELECT p.place, p.nth, coalesce(j.job_group, '') AS bucket, greatest(j.cost, 1)::numeric AS cost
        FROM unnest(all_places) WITH ORDINALITY AS p (place, nth)
        CROSS JOIN LATERAL (SELECT x.job_group, x.cost FROM errand.jobs x WHERE x.ctid = p.place OFFSET 0) AS j
    ), buckets AS MATERIALIZED (
        SELECT g.bucket, r.each, r.most, errand.bucket_full(queue_name, g.bucket, r.each, r.most, now_ns) AS full_at
        FROM (SELECT DISTINCT bucket FROM jobs WHERE bucket > '') AS g
        CROSS JOIN LATERAL (
            SELECT
                CASE WHEN coalesce(max(x.group_rate_jobs), 0) = 0 THEN group_each ELSE max(x.group_rate_each) END AS each,
                CASE WHEN coalesce(max(x.group_rate_jobs), 0) = 0 THEN group_most ELSE max(x.group_rate_most) END AS most
            FROM errand.rules x
            WHERE x.queue = queue_name AND x.job_group = g.bucket
        ) AS r
        WHERE r.each IS NOT NULL
        UNION ALL
        SELECT '', queue_each, queue_most, errand.bucket_full(queue_name, '', queue_each, queue_most, now_ns)
        WHERE queue_each IS NOT NULL
    ), by_group AS (
        SELECT j.*, coalesce(b.full_at - now_ns + (
                sum(j.cost) OVER (PARTITION BY j.bucket ORDER BY j.nth) - j.cost - b.most + least(j.cost, b.most)
            ) * b.each, 0) AS group_wait
        FROM jobs j LEFT JOIN buckets b ON b.bucket = j.bucket AND j.bucket > ''
    ), by_queue AS MATERIALIZED (
        SELECT g.*, coalesce(q.full_at - now_ns + (
                sum(g.cost) OVER (ORDER BY g.nth) - g.cost - q.most + least(g.cost, q.most)
            ) * q.each, 0) AS queue_wait
        FROM by_group g LEFT JOIN buckets q ON q.bucket = ''
        WHERE g.group_wait <= 0
    ), spent AS (
        INSERT INTO errand.tokens (queue, job_group, at, full_at, each)
        SELECT
            queue_name, b.bucket, now_ns, least(b.full_at + c.cost * b.each, now_ns + 3153600000000000000)::bigint, b.each
        FROM buckets b
        CROSS JOIN LATERAL (
            SELECT sum(p.cost) AS cost FROM by_queue p WHERE p.queue_wait <= 0 AND b.bucket IN ('', p.bucket)
        ) AS c
        WHERE c.cost > 0
        ORDER BY b.bucket COLLATE "C"
        ON CONFLICT (queue, job_group) DO UPDATE
        SET at = excluded.at, full_at = excluded.full_at, each = excluded.each
        RETURNING job_group, full_at
    ), waits AS (
        -- the first job that was refused, or the next one, which costs 1 at least
        SELECT b.bucket, least(greatest(f.needs, least(20000000, (f.full_at - now_ns) / 2)), 3153600000000000000)::bigint AS wait
        FROM buckets b
        CROSS JOIN LATERAL (
            SELECT a.full_at, coalesce(
                CASE b.bucket WHEN '' THEN (SELECT min(r.queue_wait) FROM by_queue r WHERE r.queue_wait > 0)
                    ELSE (SELECT min(r.group_wait) FROM by_group r WHERE r.bucket = b.bucket AND r.group_wait > 0) END,
                a.full_at - now_ns - (b.most - 1) * b.each) AS needs
            FROM (
                SELECT coalesce((SELECT s.full_at FROM spent s WHERE s.job_group = b.bucket), b.full_at) AS full_at
            ) AS a
        ) AS f
        WHERE f.needs > 0
    )
    SELECT
        ARRAY(SELECT p.place FROM by_queue p WHERE p.queue_wait <= 0 ORDER BY p.nth),
        (SELECT w.wait FROM waits w WHERE w.bucket = ''),
        (SELECT min(w.wait) FROM waits w WHERE w.bucket > '')
    INTO places, hold, wait;
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
-- spans are those of lock_spans for the jobs without a group. saw is 'cut' if it has stopped there, and 'all' if it has
-- seen all of the spans.
-- One query goes from group to group, with a look-up each. It locks the first jobs of the group's first priority. If
-- others have locked some of them, or if they are not enough and the group has other priorities, lock_group looks at the
-- group.
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
    spans       jsonb,
    OUT places     tid[],
    OUT saw        text,
    OUT last_group text,
    OUT held_back  boolean,
    OUT has_more   boolean,
    OUT wait       bigint
) LANGUAGE plpgsql AS $$
DECLARE
    due        CONSTANT timestamptz := clock_timestamp();
    has_rules  CONSTANT boolean := EXISTS (SELECT FROM errand.rules r WHERE r.queue = queue_name AND r.job_group > '');
    visited    integer := 0;
    turn       record;
    got        tid[];
    ungrouped  record;
    again      text[] := '{}';    -- the groups that may have more jobs
    taken      integer[] := '{}'; -- how many were locked of each
    free       integer[] := '{}'; -- how many more of each may run
    shares     integer[] := '{}';
    all_shares bigint;
    most       integer;
    turn_most  integer;
BEGIN
    places := '{}';
    saw := '';
    last_group := after_group;
    held_back := false;
    FOR part IN 1 .. 2 LOOP -- behind after_group, and up to it
        FOR turn IN
            WITH RECURSIVE heads (job_group, priority, kind, nth) AS (
                (
                    SELECT p.job_group, p.priority, p.kind COLLATE "C", 1
                    FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group > CASE part WHEN 1 THEN after_group ELSE '' END
                        AND p.job_group IS NOT NULL AND p.ordered IS NULL AND p.status BETWEEN 'pending' AND 'pending'
                    ORDER BY p.job_group, p.priority, p.kind COLLATE "C", p.scheduled_at, p.id
                    LIMIT 1
                )
                UNION ALL
                SELECT n.job_group, n.priority, n.kind, h.nth + 1
                FROM heads h
                CROSS JOIN LATERAL (
                    SELECT p.job_group, p.priority, p.kind COLLATE "C" AS kind
                    FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group > h.job_group
                        AND p.job_group IS NOT NULL AND p.ordered IS NULL AND p.status BETWEEN 'pending' AND 'pending'
                    ORDER BY p.job_group, p.priority, p.kind COLLATE "C", p.scheduled_at, p.id
                    LIMIT 1
                ) AS n
                WHERE h.nth < 1000
            )
            SELECT h.job_group, h.priority, f.free, s.share, d.places, t.wait
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
                OFFSET 0 -- free is worked out once
            ) AS f
            CROSS JOIN LATERAL (
                SELECT CASE WHEN f.free > 0 THEN ARRAY(
                    SELECT l.ctid
                    FROM errand.group_jobs(queue_name, h.job_group, h.priority, h.kind, kinds, due,
                        least(f.free, s.share, room)) AS g
                    LEFT JOIN LATERAL (
                        SELECT j.ctid
                        FROM errand.jobs j
                        WHERE j.ctid = g.place AND j.status = 'pending' AND j.scheduled_at <= due
                            AND (j.queue, j.job_group) IS NOT DISTINCT FROM (queue_name, h.job_group)
                        FOR UPDATE SKIP LOCKED
                    ) AS l ON true -- NULL for a job that others have locked
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
                got := array_remove(turn.places, NULL);
                got := got[1:most];
                IF cardinality(got) < most AND (cardinality(turn.places) > cardinality(got) OR EXISTS (
                    SELECT FROM errand.jobs p
                    WHERE p.queue = queue_name AND p.job_group = turn.job_group AND p.ordered IS NULL
                        AND p.status BETWEEN 'pending' AND 'pending'
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
            SELECT l.places, l.is_cut INTO ungrouped FROM errand.lock_spans(queue_name, kinds, most, true, spans) AS l;
            got := ungrouped.places;
            saw := CASE WHEN ungrouped.is_cut THEN 'cut' WHEN cardinality(got) < most THEN 'all' ELSE '' END;
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
            turn_most := least(
                free[i], taken[i] + least(greatest(most * shares[i]::bigint / all_shares, shares[i]), room)::integer);
            IF again[i] = '' THEN
                SELECT l.places, l.is_cut INTO ungrouped
                FROM errand.lock_spans(queue_name, kinds, turn_most, true, spans) AS l;
                got := ungrouped.places;
                saw := CASE WHEN ungrouped.is_cut THEN 'cut' WHEN cardinality(got) < turn_most THEN 'all' ELSE '' END;
            ELSE
                got := errand.lock_group(queue_name, again[i], kinds, turn_most);
            END IF;
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
-- do, its attempts are 1 if a limit kept jobs from being claimed, and its priority is 1 if there are groups that the
-- claim has not looked at. Its fence is how many microseconds pass until there
-- are tokens for the next job, 0 if there are, and its max_attempts how many of them pass until the queue's own rate
-- lets any job start. Ordered jobs come after the others.
-- spans are those of lock_spans, for the jobs without a group if groups take turns and for all otherwise. The kind of
-- the last row is 'cut' if lock_spans has stopped, and 'all' if no job was left in the spans that it could lock.
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
    after_ordered text,
    spans         jsonb
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
    saw           text := '';
    held_back     boolean := false;
    has_rates     boolean;
    has_more      boolean := false;
    full_at       bigint;
    paid          record;
    wait          bigint; -- until a group has tokens for its next job
    hold          bigint; -- until the queue has
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
    SELECT
        r.paused, r.running, r.per_group, r.share, r.rate_each, r.rate_most, r.group_rate_each, r.group_rate_most INTO rule
    FROM errand.rules r WHERE r.queue = queue_name AND r.job_group = '';
    has_rates := EXISTS (
        SELECT FROM errand.rules r WHERE r.queue = queue_name AND (r.rate_jobs > 0 OR r.group_rate_jobs > 0));
    has_turns := coalesce(rule.per_group > 0 OR rule.share > 0 OR rule.group_rate_each > 0, false)
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
    IF room > 0 AND rule.rate_each IS NOT NULL THEN
        at := clock_timestamp();
        full_at := errand.bucket_full(queue_name, '', rule.rate_each, rule.rate_most, errand.nanoseconds(at));
        room := least(room, greatest(errand.nanoseconds(at) + rule.rate_most * rule.rate_each - full_at, 0) / rule.rate_each);
        IF room <= 0 THEN
            hold := errand.bucket_wait(full_at, rule.rate_each, rule.rate_most, errand.nanoseconds(at));
        END IF;
    END IF;
    IF room > 0 AND has_turns THEN
        SELECT * INTO found_jobs FROM errand.lock_turns(queue_name, kinds, room, coalesce(rule.per_group, 0),
            greatest(rule.share, 1), unmarked, after_group, rule.group_rate_each, rule.group_rate_most,
            CASE WHEN has_rates THEN errand.nanoseconds(clock_timestamp()) END, spans);
        places := found_jobs.places;
        saw := found_jobs.saw;
        after_group := found_jobs.last_group;
        held_back := found_jobs.held_back;
        has_more := found_jobs.has_more;
        wait := found_jobs.wait;
    ELSIF room > 0 THEN
        SELECT * INTO found_jobs FROM errand.lock_spans(queue_name, kinds, room, false, spans);
        places := found_jobs.places;
        saw := CASE WHEN found_jobs.is_cut THEN 'cut' WHEN cardinality(places) < room THEN 'all' ELSE '' END;
    END IF;
    room := room - cardinality(places);
    IF room > 0 AND EXISTS (
        SELECT FROM errand.jobs j WHERE j.queue = queue_name AND j.ordered AND j.status IN ('pending', 'held')
    ) THEN
        SELECT * INTO found_jobs FROM errand.lock_ordered(queue_name, kinds, room, after_ordered, '1ms');
        after_ordered := found_jobs.last_group;
        has_more := has_more OR found_jobs.has_more;
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
    at := clock_timestamp();
    IF has_rates AND cardinality(places) > 0 THEN
        SELECT * INTO paid FROM errand.spend(queue_name, places, errand.nanoseconds(at), rule.rate_each, rule.rate_most,
            rule.group_rate_each, rule.group_rate_most);
        wait := least(wait, paid.wait);
        hold := paid.hold;
        IF cardinality(paid.places) < cardinality(places) AND saw = 'all' THEN
            saw := '';
        END IF;
        places := paid.places;
    END IF;
    PERFORM set_config('lock_timeout', usual_timeout, true);
    IF cardinality(places) > 0 THEN
        drawn := nextval('errand.fences');
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
            j.id, j.queue::text, j.kind::text,
            CASE WHEN pg_column_size(j.payload) <= longest AND coalesce(pg_column_size(j.headers) <= longest, true)
                THEN j.payload END,
            j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts::integer, j.fence,
            least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(j.job_key, ''),
            CASE WHEN pg_column_size(j.headers) <= longest THEN j.headers END, coalesce(left(j.last_error, 8192), ''),
            coalesce(j.job_group, '');
    END IF;
    RETURN QUERY SELECT
        0::bigint, '', saw, 'null'::jsonb, (has_more AND hold IS NULL)::integer, at, held_back::integer,
        (least(coalesce(hold, 0), 1000000000000) / 1000)::integer,
        (coalesce(hold, wait, 0) + 999) / 1000, at, after_ordered, NULL::jsonb, '',
        after_group
    FROM (SELECT clock_timestamp() AS at) AS now;
END
$$;
