-- Rates: how many jobs of a queue, or of each group in it, start in a time. See queue.Rate.

-- What a job takes of a rate; NULL for 1. No column has a default, so the server writes no row for it.
ALTER TABLE errand.jobs ADD COLUMN cost integer;
ALTER TABLE errand.jobs_archive ADD COLUMN cost integer;

-- rate_jobs jobs in rate_per nanoseconds, 0 for a second, and rate_burst at once, 0 for those of a tenth of a second.
-- rate_jobs is 0 for no rate; group_rate_jobs of a group is 0 for the queue's, and below 0 for none. rate_each is how
-- many nanoseconds a token takes, and rate_most how many tokens there are at most; NULL for no rate.
ALTER TABLE errand.rules
    ADD COLUMN rate_jobs        integer NOT NULL DEFAULT 0,
    ADD COLUMN rate_per         bigint NOT NULL DEFAULT 0,
    ADD COLUMN rate_burst       integer NOT NULL DEFAULT 0,
    ADD COLUMN group_rate_jobs  integer NOT NULL DEFAULT 0,
    ADD COLUMN group_rate_per   bigint NOT NULL DEFAULT 0,
    ADD COLUMN group_rate_burst integer NOT NULL DEFAULT 0,
    ADD COLUMN rate_each bigint GENERATED ALWAYS AS (CASE WHEN rate_jobs > 0
        THEN (coalesce(nullif(rate_per, 0), 1000000000) + rate_jobs - 1) / rate_jobs END) STORED,
    ADD COLUMN rate_most bigint GENERATED ALWAYS AS (CASE WHEN rate_jobs > 0
        THEN coalesce(nullif(rate_burst, 0),
            greatest(rate_jobs * 100000000::bigint / coalesce(nullif(rate_per, 0), 1000000000), 1)) END) STORED,
    ADD COLUMN group_rate_each bigint GENERATED ALWAYS AS (CASE WHEN group_rate_jobs > 0
        THEN (coalesce(nullif(group_rate_per, 0), 1000000000) + group_rate_jobs - 1) / group_rate_jobs END) STORED,
    ADD COLUMN group_rate_most bigint GENERATED ALWAYS AS (CASE WHEN group_rate_jobs > 0
        THEN coalesce(nullif(group_rate_burst, 0),
            greatest(group_rate_jobs * 100000000::bigint / coalesce(nullif(group_rate_per, 0), 1000000000), 1)) END) STORED;
CREATE INDEX rules_rates_idx ON errand.rules (queue) WHERE rate_jobs > 0 OR group_rate_jobs > 0;

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

-- set_rates sets the rates of rules that set_rules has just set.
CREATE FUNCTION errand.set_rates(
    queues           text[],
    groups           text[],
    rate_jobs        integer[],
    rate_per         bigint[],
    rate_burst       integer[],
    group_rate_jobs  integer[],
    group_rate_per   bigint[],
    group_rate_burst integer[]
) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE errand.rules r
    SET
        rate_jobs = n.rate_jobs, rate_per = n.rate_per, rate_burst = n.rate_burst, group_rate_jobs = n.group_rate_jobs,
        group_rate_per = n.group_rate_per, group_rate_burst = n.group_rate_burst
    FROM unnest(queues, groups, set_rates.rate_jobs, set_rates.rate_per, set_rates.rate_burst, set_rates.group_rate_jobs,
        set_rates.group_rate_per, set_rates.group_rate_burst)
        AS n (queue, job_group, rate_jobs, rate_per, rate_burst, group_rate_jobs, group_rate_per, group_rate_burst)
    WHERE r.queue = n.queue AND r.job_group = n.job_group;
    INSERT INTO errand.limited_queues (queue)
    SELECT DISTINCT r.queue FROM errand.rules r
    WHERE r.queue = ANY (queues) AND (r.rate_jobs > 0 OR r.group_rate_jobs > 0)
    ON CONFLICT DO NOTHING;
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

-- claim_limited claims due jobs of one limited queue, and keeps its rules. Claims of a queue go one at a time: each
-- waits for the advisory lock, and then looks with a snapshot of its own, which shows what the claim before has taken.
-- In one plain statement the snapshot would be older than the lock, and limits would be exceeded.
-- Parameters and columns are those of claim.sql. after_group is the group behind which the turns begin. The last row is
-- no job: its id is 0, its job_group is where the turns of the next claim begin, its job_key where those of ordered jobs
-- do, its attempts are 1 if a limit kept jobs from being claimed, and its priority is 1 if there are groups that the
-- claim has not looked at. Its fence is how many microseconds pass until there
-- are tokens for the next job, 0 if there are, and its max_attempts how many of them pass until the queue's own rate
-- lets any job start. Ordered jobs come after the others.
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
            CASE WHEN has_rates THEN errand.nanoseconds(clock_timestamp()) END);
        places := found_jobs.places;
        after_group := found_jobs.last_group;
        held_back := found_jobs.held_back;
        has_more := found_jobs.has_more;
        wait := found_jobs.wait;
    ELSIF room > 0 THEN
        places := errand.lock_due(ARRAY[queue_name], kinds, room, '1ms', last_priority => ARRAY[2147483646]);
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
            j.id, j.queue, j.kind,
            CASE WHEN pg_column_size(j.payload) <= longest AND coalesce(pg_column_size(j.headers) <= longest, true)
                THEN j.payload END,
            j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts, j.fence,
            least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(j.job_key, ''),
            CASE WHEN pg_column_size(j.headers) <= longest THEN j.headers END, coalesce(left(j.last_error, 8192), ''),
            coalesce(j.job_group, '');
    END IF;
    RETURN QUERY SELECT
        0::bigint, '', '', 'null'::jsonb, (has_more AND hold IS NULL)::integer, at, held_back::integer,
        (least(coalesce(hold, 0), 1000000000000) / 1000)::integer,
        (coalesce(hold, wait, 0) + 999) / 1000, at, after_ordered, NULL::jsonb, '',
        after_group
    FROM (SELECT clock_timestamp() AS at) AS now;
END
$$;

-- insert_keyed, insert_replacing and enqueue take a cost, too. A function with other parameters is another function.
DO $$
DECLARE
    keyed text := pg_get_functiondef('errand.insert_keyed'::regproc);
    replacing text := pg_get_functiondef('errand.insert_replacing'::regproc);
    enqueue text := pg_get_functiondef('errand.enqueue'::regproc);
BEGIN
    keyed := replace(keyed, 'ordered boolean[] DEFAULT NULL::boolean[])',
        'ordered boolean[] DEFAULT NULL::boolean[], costs integer[] DEFAULT NULL::integer[])');
    keyed := replace(keyed, 't.job_group, t.ordered,', 't.job_group, t.ordered, t.cost,');
    keyed := replace(keyed, 'insert_keyed.ordered)', 'insert_keyed.ordered, costs)');
    keyed := replace(keyed, 'job_group, ordered, ord)', 'job_group, ordered, cost, ord)');
    keyed := replace(keyed, 'headers, job_group, ordered)', 'headers, job_group, ordered, cost)');
    keyed := replace(keyed, 'i.job_group, i.ordered', 'i.job_group, i.ordered, i.cost');
    replacing := replace(replacing, 'max_delays bigint[])', 'max_delays bigint[], costs integer[] DEFAULT NULL::integer[])');
    replacing := replace(replacing, 't.ordered, coalesce(t.replaces', 't.ordered, t.cost, coalesce(t.replaces');
    replacing := replace(replacing, 'replaces, max_delays)', 'replaces, max_delays, costs)');
    replacing := replace(replacing, 'max_delay, ord)', 'max_delay, cost, ord)');
    replacing := replace(replacing, 'headers, job_group, ordered)', 'headers, job_group, ordered, cost)');
    replacing := replace(replacing, 'job.job_group, job.ordered)', 'job.job_group, job.ordered, job.cost)');
    replacing := replace(replacing, 'ordered = excluded.ordered,', 'ordered = excluded.ordered, cost = excluded.cost,');
    enqueue := replace(enqueue, 'ordered boolean DEFAULT false)', 'ordered boolean DEFAULT false, cost integer DEFAULT 1)');
    enqueue := replace(enqueue, '    ELSIF on_duplicate NOT IN', '    ELSIF cost NOT BETWEEN 0 AND 1000000 THEN
        RAISE EXCEPTION ''errand: invalid cost: %: between 0 (for 1) and 1000000'', cost USING ERRCODE = ''invalid_parameter_value'';
    ELSIF on_duplicate NOT IN');
    enqueue := replace(enqueue, '    ordered := nullif(ordered, false);', '    ordered := nullif(ordered, false);
    cost := CASE WHEN cost > 1 THEN cost END;');
    enqueue := replace(enqueue, 'called_at + max_delay - called_at) * 1000000)::bigint])',
        'called_at + max_delay - called_at) * 1000000)::bigint], ARRAY[cost])');
    enqueue := replace(enqueue, 'headers, job_group, ordered)', 'headers, job_group, ordered, cost)');
    IF (length(keyed) - length(replace(keyed, 'cost', ''))) / 4 < 6 OR (length(replacing) - length(replace(replacing, 'cost', ''))) / 4 < 10
        OR (length(enqueue) - length(replace(enqueue, 'cost', ''))) / 4 < 10 THEN
        RAISE EXCEPTION 'errand: insert_keyed, insert_replacing or enqueue is not as migration 15 has made it';
    END IF;
    DROP FUNCTION errand.insert_keyed, errand.insert_replacing, errand.enqueue;
    EXECUTE keyed;
    EXECUTE replacing;
    EXECUTE enqueue;
    REVOKE ALL ON FUNCTION errand.insert_keyed, errand.insert_replacing FROM PUBLIC;
END
$$;
