SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA errand;
CREATE DOMAIN errand.attempt_limit AS integer
	CONSTRAINT jobs_values_check CHECK ((VALUE <= 1000000));
CREATE DOMAIN errand.due_time AS timestamp with time zone
	CONSTRAINT jobs_values_check CHECK (isfinite(VALUE));
CREATE DOMAIN errand.job_name AS text
	CONSTRAINT jobs_values_check CHECK ((octet_length(VALUE) <= 200));
CREATE TYPE errand.job_status AS ENUM (
    'pending',
    'running',
    'completed',
    'failed',
    'dead',
    'held',
    'cancelled'
);
CREATE FUNCTION errand.apply_rules(queues text[], wake boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM "errand".rules r WHERE r.queue = ANY (queues) AND NOT r.is_limit AND NOT r.hold_dead;
    DELETE FROM "errand".limited_queues l
    WHERE l.queue = ANY (queues) AND NOT EXISTS (SELECT FROM "errand".rules r WHERE r.queue = l.queue AND r.is_limit);
    INSERT INTO "errand".limited_queues (queue)
    SELECT DISTINCT r.queue FROM "errand".rules r WHERE r.queue = ANY (queues) AND r.is_limit
    ON CONFLICT DO NOTHING;
    PERFORM pg_notify('errand', q.queue)
    FROM (SELECT DISTINCT u.queue FROM unnest(queues) AS u (queue)) AS q
    WHERE wake AND EXISTS (
        SELECT FROM "errand".sleepers s WHERE s.queue = q.queue AND s.since > statement_timestamp() - interval '1 minute');
END
$$;
CREATE FUNCTION errand.bucket_full(queue_name text, bucket text, each bigint, most bigint, now_ns bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT greatest(now_ns, (
        SELECT greatest(
            CASE WHEN t.each IN (0, bucket_full.each) THEN t.full_at
                ELSE now_ns + least(bucket_full.each * greatest(0,
                        (t.full_at - t.at)::double precision / t.each
                        - greatest(now_ns - t.at, 0)::double precision / least(t.each, bucket_full.each)),
                    3153600000000000000)::bigint
            END,
            CASE WHEN t.until > 0 THEN t.until + (bucket_full.most - 1) * bucket_full.each END)
        FROM "errand".tokens t
        WHERE t.queue = queue_name AND t.job_group = bucket))
$$;
CREATE FUNCTION errand.bucket_wait(full_at bigint, each bigint, most bigint, now_ns bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT greatest(full_at - now_ns - (most - 1) * each, least(20000000, (full_at - now_ns) / 2), 1)
$$;
CREATE FUNCTION errand.claim_limited(queue_name text, kinds text[], max_jobs integer, lease bigint, worker text, longest bigint, known_version bigint, after_group text, after_ordered text, spans jsonb) RETURNS TABLE(id bigint, queue text, kind text, payload jsonb, priority integer, scheduled_at timestamp with time zone, attempts integer, max_attempts integer, fence bigint, created_at timestamp with time zone, job_key text, headers jsonb, last_error text, job_group text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    AS $$
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
    PERFORM pg_advisory_xact_lock('"errand".rules'::regclass::integer, hashtext(queue_name));
    PERFORM set_config('lock_timeout', '1ms', true);
    IF (SELECT v.version FROM "errand".rules_version v) <> known_version THEN
        PERFORM "errand".rules_changed();
    END IF;
    SELECT
        r.paused, r.running, r.per_group, r.share, r.rate_each, r.rate_most, r.group_rate_each, r.group_rate_most INTO rule
    FROM "errand".rules r WHERE r.queue = queue_name AND r.job_group = '';
    has_rates := EXISTS (
        SELECT FROM "errand".rules r WHERE r.queue = queue_name AND (r.rate_jobs > 0 OR r.group_rate_jobs > 0));
    has_turns := coalesce(rule.per_group > 0 OR rule.share > 0 OR rule.group_rate_each > 0, false)
        OR EXISTS (SELECT FROM "errand".rules r WHERE r.queue = queue_name AND r.job_group > '');
    IF EXISTS (SELECT FROM "errand".limited_queues l WHERE l.queue = queue_name AND NOT l.marked) THEN
        unmarked := "errand".mark_limited(queue_name);
    END IF;
    IF rule.running > 0 THEN
        SELECT count(*) INTO runs FROM (
            SELECT FROM "errand".jobs j WHERE j.queue = queue_name AND j.limited AND j.status = 'running' LIMIT rule.running
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
        full_at := "errand".bucket_full(queue_name, '', rule.rate_each, rule.rate_most, "errand".nanoseconds(at));
        room := least(room, greatest("errand".nanoseconds(at) + rule.rate_most * rule.rate_each - full_at, 0) / rule.rate_each);
        IF room <= 0 THEN
            hold := "errand".bucket_wait(full_at, rule.rate_each, rule.rate_most, "errand".nanoseconds(at));
        END IF;
    END IF;
    IF room > 0 AND has_turns THEN
        SELECT * INTO found_jobs FROM "errand".lock_turns(queue_name, kinds, room, coalesce(rule.per_group, 0),
            greatest(rule.share, 1), unmarked, after_group, rule.group_rate_each, rule.group_rate_most,
            CASE WHEN has_rates THEN "errand".nanoseconds(clock_timestamp()) END, spans);
        places := found_jobs.places;
        saw := found_jobs.saw;
        after_group := found_jobs.last_group;
        held_back := found_jobs.held_back;
        has_more := found_jobs.has_more;
        wait := found_jobs.wait;
    ELSIF room > 0 THEN
        SELECT * INTO found_jobs FROM "errand".lock_spans(queue_name, kinds, room, false, spans);
        places := found_jobs.places;
        saw := CASE WHEN found_jobs.is_cut THEN 'cut' WHEN cardinality(places) < room THEN 'all' ELSE '' END;
    END IF;
    room := room - cardinality(places);
    IF room > 0 AND EXISTS (
        SELECT FROM "errand".jobs j WHERE j.queue = queue_name AND j.ordered AND j.status IN ('pending', 'held')
    ) THEN
        SELECT * INTO found_jobs FROM "errand".lock_ordered(queue_name, kinds, room, after_ordered, '1ms');
        after_ordered := found_jobs.last_group;
        has_more := has_more OR found_jobs.has_more;
        held_back := true; -- the end of an ordered job wakes no worker but its own
        places := places || ARRAY(
            SELECT j.ctid
            FROM "errand".jobs j
            CROSS JOIN LATERAL (
                SELECT coalesce(nullif(max(r.per_group), 0), rule.per_group, 0) AS most
                FROM "errand".rules r
                WHERE r.queue = queue_name AND r.job_group = j.job_group
            ) AS s
            WHERE j.ctid = ANY (found_jobs.places) AND (s.most <= 0 OR s.most > (
                SELECT count(*) FROM "errand".jobs r
                WHERE r.queue = queue_name AND r.job_group = j.job_group AND r.limited AND r.status = 'running'
            ) + (SELECT count(*) FROM unnest(unmarked) AS u (job_group) WHERE u.job_group = j.job_group)
            + (SELECT count(*) FROM "errand".jobs l WHERE l.ctid = ANY (places) AND l.job_group = j.job_group))
        );
    END IF;
    at := clock_timestamp();
    IF has_rates AND cardinality(places) > 0 THEN
        SELECT * INTO paid FROM "errand".spend(queue_name, places, "errand".nanoseconds(at), rule.rate_each, rule.rate_most,
            rule.group_rate_each, rule.group_rate_most);
        wait := least(wait, paid.wait);
        hold := paid.hold;
        IF cardinality(paid.places) < cardinality(places) AND saw = 'all' THEN
            saw := '';
        END IF;
        places := paid.places;
    END IF;
    PERFORM set_config('lock_timeout', usual_timeout, true);
    IF (SELECT v.version FROM "errand".rules_version v) <> known_version THEN
        PERFORM "errand".rules_changed();
    END IF;
    IF cardinality(places) > 0 THEN
        drawn := nextval('"errand".fences');
        RETURN QUERY
        UPDATE "errand".jobs AS j
        SET
            status = 'running',
            attempts = least(j.attempts, 1999999999) + 1,
            fence = greatest(drawn, least(abs(greatest(j.fence, -9223372036854775806)), 9223372036854775806) + 1),
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
CREATE FUNCTION errand.claim_ordered(queue_name text, kinds text[], max_jobs integer, lease bigint, worker text, longest bigint, after_group text) RETURNS TABLE(id bigint, queue text, kind text, payload jsonb, priority integer, scheduled_at timestamp with time zone, attempts integer, max_attempts integer, fence bigint, created_at timestamp with time zone, job_key text, headers jsonb, last_error text, job_group text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    found_jobs record;
    drawn      bigint;
    at         timestamptz;
BEGIN
    SELECT * INTO found_jobs FROM "errand".lock_ordered(queue_name, kinds, max_jobs, after_group, '1ms');
    at := clock_timestamp();
    IF cardinality(found_jobs.places) > 0 THEN
        drawn := nextval('"errand".fences');
        RETURN QUERY
        UPDATE "errand".jobs AS j
        SET
            status = 'running',
            attempts = least(j.attempts, 1999999999) + 1,
            fence = greatest(drawn, least(abs(greatest(j.fence, -9223372036854775806)), 9223372036854775806) + 1),
            locked_at = at,
            locked_by = worker,
            locked_until = at + lease * interval '1 microsecond',
            updated_at = at,
            started_at = at,
            finished_at = NULL
        WHERE j.ctid = ANY (found_jobs.places)
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
        0::bigint, '', '', 'null'::jsonb, 0, at, found_jobs.has_more::integer, found_jobs.visited, 0::bigint, at, '', NULL::jsonb,
        '', found_jobs.last_group;
END
$$;
CREATE FUNCTION errand.enqueue(queue text, kind text, payload jsonb DEFAULT 'null'::jsonb, priority integer DEFAULT 0, delay interval DEFAULT NULL::interval, scheduled_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT 5, job_key text DEFAULT NULL::text, headers jsonb DEFAULT NULL::jsonb, job_group text DEFAULT NULL::text, on_duplicate text DEFAULT 'keep'::text, max_delay interval DEFAULT NULL::interval, ordered boolean DEFAULT false, cost integer DEFAULT 1) RETURNS bigint
    LANGUAGE plpgsql
    AS $_$
#variable_conflict use_column
DECLARE
    name_rule CONSTANT text := '^[\x20-\x7e]{1,200}$';
    problem text := "errand".payload_problem(payload);
    id bigint;
    called_at CONSTANT timestamptz := statement_timestamp(); -- tells how long a month is
BEGIN
    IF queue IS NULL OR queue !~ name_rule THEN
        RAISE EXCEPTION 'errand: invalid queue: 1 to 200 printable ASCII bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF kind IS NULL OR kind !~ name_rule THEN
        RAISE EXCEPTION 'errand: invalid kind: 1 to 200 printable ASCII bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF problem IS NOT NULL THEN
        RAISE EXCEPTION 'errand: invalid payload: %', problem USING ERRCODE = 'invalid_parameter_value';
    ELSIF delay < interval '0' OR delay > interval '36500 days' THEN
        RAISE EXCEPTION 'errand: invalid delay: %: between 0 and 36500 days', delay USING ERRCODE = 'invalid_parameter_value';
    ELSIF delay IS NOT NULL AND scheduled_at IS NOT NULL THEN
        RAISE EXCEPTION 'errand: invalid delay: set one of delay and scheduled_at' USING ERRCODE = 'invalid_parameter_value';
    ELSIF scheduled_at < '1970-01-01Z' OR scheduled_at >= '10000-01-01Z' THEN
        RAISE EXCEPTION 'errand: invalid scheduled_at: %: between the years 1970 and 9999', scheduled_at USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_attempts NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'errand: invalid max_attempts: %: between 1 and 1000000', max_attempts USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(job_key) NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION 'errand: invalid job_key: 1 to 500 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(job_group) NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'errand: invalid job_group: 1 to 200 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF jsonb_typeof(headers) <> 'object' OR jsonb_path_exists(headers, 'strict $.* ? (@.type() != "string")', '{}', true) THEN
        RAISE EXCEPTION 'errand: invalid headers: an object of strings' USING ERRCODE = 'invalid_parameter_value';
    ELSIF headers IS NOT NULL AND 65536 < (SELECT sum(octet_length(h.key) + octet_length(h.value)) FROM jsonb_each_text(headers) AS h) THEN
        RAISE EXCEPTION 'errand: invalid headers: at most 65536 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF ordered AND job_group IS NULL THEN
        RAISE EXCEPTION 'errand: invalid ordered: without a job_group' USING ERRCODE = 'invalid_parameter_value';
    ELSIF ordered AND priority <> 0 THEN
        RAISE EXCEPTION 'errand: invalid priority: % of an ordered job: must be 0', priority USING ERRCODE = 'invalid_parameter_value';
    ELSIF priority = 2147483647 THEN
        RAISE EXCEPTION 'errand: invalid priority: %: at most 2147483646', priority USING ERRCODE = 'invalid_parameter_value';
    ELSIF cost NOT BETWEEN 0 AND 1000000 THEN
        RAISE EXCEPTION 'errand: invalid cost: %: between 0 (for 1) and 1000000', cost USING ERRCODE = 'invalid_parameter_value';
    ELSIF on_duplicate NOT IN ('keep', 'replace') THEN
        RAISE EXCEPTION 'errand: invalid on_duplicate: keep or replace' USING ERRCODE = 'invalid_parameter_value';
    ELSIF on_duplicate = 'replace' AND job_key IS NULL THEN
        RAISE EXCEPTION 'errand: invalid on_duplicate: replace without a job_key' USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_delay IS NOT NULL AND (on_duplicate IS DISTINCT FROM 'replace' OR delay IS NULL) THEN
        RAISE EXCEPTION 'errand: invalid max_delay: without a delay and on_duplicate => ''replace''' USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_delay < delay OR max_delay > interval '36500 days' THEN
        RAISE EXCEPTION 'errand: invalid max_delay: %: between the delay and 36500 days', max_delay USING ERRCODE = 'invalid_parameter_value';
    END IF;
    ordered := nullif(ordered, false);
    cost := CASE WHEN cost > 1 THEN cost END;
    IF ordered THEN
        priority := 2147483647; -- see lock_ordered
    END IF;
    IF on_duplicate = 'replace' THEN
        id := (
            SELECT r.id FROM "errand".insert_replacing(
                ARRAY[queue], ARRAY[kind], coalesce(payload, 'null')::text, ARRAY[priority],
                ARRAY[(extract(epoch FROM called_at + delay - called_at) * 1000000)::bigint], ARRAY[scheduled_at], ARRAY[max_attempts],
                ARRAY[job_key], ARRAY[headers::text], ARRAY[job_group], ARRAY[ordered], ARRAY[true],
                ARRAY[(extract(epoch FROM called_at + max_delay - called_at) * 1000000)::bigint], ARRAY[cost]) AS r);
    END IF;
    WHILE id IS NULL LOOP
        INSERT INTO "errand".jobs AS j (
            queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered, cost)
        VALUES (
            queue, kind, coalesce(payload, 'null'), coalesce(priority, 0),
            -- The number is drawn first, because the INSERT may wait for the key: see ration_marks.go.
            coalesce(scheduled_at, CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END
                + coalesce(delay, interval '0')),
            coalesce(max_attempts, 5), job_key, headers, job_group, ordered, cost)
        ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO NOTHING
        RETURNING j.id INTO id;
        EXIT WHEN id IS NOT NULL;
        SELECT live.id INTO id FROM "errand".jobs AS live
        WHERE live.queue = enqueue.queue AND live.job_key = enqueue.job_key AND live.status IN ('pending', 'running', 'held');
        IF id IS NOT NULL THEN
            RETURN id;
        END IF;
    END LOOP;
    PERFORM pg_notify('errand', queue) WHERE EXISTS (
        SELECT FROM "errand".sleepers s WHERE s.queue = enqueue.queue AND s.since > statement_timestamp() - interval '1 minute');
    RETURN id;
END
$_$;
CREATE FUNCTION errand.group_jobs(queue_name text, group_name text, of_priority integer, first_kind text, kinds text[], due timestamp with time zone, max_jobs integer) RETURNS TABLE(place tid)
    LANGUAGE sql STABLE
    AS $$
    WITH RECURSIVE present (kind) AS (
        SELECT first_kind COLLATE "C"
        UNION ALL
        SELECT n.kind
        FROM present k
        CROSS JOIN LATERAL (
            SELECT p.kind COLLATE "C" AS kind
            FROM "errand".jobs p
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
        FROM "errand".jobs p
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
CREATE FUNCTION errand.insert_keyed(queues text[], kinds text[], payloads text, priorities integer[], delays bigint[], dues timestamp with time zone[], max_attempts integer[], job_keys text[], headers text[], job_groups text[] DEFAULT NULL::text[], ordered boolean[] DEFAULT NULL::boolean[], costs integer[] DEFAULT NULL::integer[]) RETURNS TABLE(id bigint, duplicate boolean, live_id bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    -- All jobs are due at the same time, so they keep their order. The transaction draws its number before the clock
    -- is read: rationed claims (ration_marks.go) need the two to be close, and sorting a large batch takes time.
    started CONSTANT timestamptz := CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END;
BEGIN
    RETURN QUERY
    WITH input AS MATERIALIZED (
        SELECT
            nextval('"errand".jobs_id_seq') AS id, coalesce(t.queue, queues[1]) AS queue, coalesce(t.kind, kinds[1]) AS kind,
            t.payload, t.priority, t.delay, t.due, t.most, t.job_key, t.headers, t.job_group, t.ordered, t.cost,
            t.ord
        FROM unnest(queues, kinds, string_to_array(payloads, E'\x1e'), priorities, delays, dues, insert_keyed.max_attempts, job_keys,
            insert_keyed.headers, job_groups, insert_keyed.ordered, costs)
            WITH ORDINALITY AS t (queue, kind, payload, priority, delay, due, most, job_key, headers, job_group, ordered, cost,
                ord)
    ), written AS (
        INSERT INTO "errand".jobs AS j (
            id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered, cost)
        SELECT
            i.id, i.queue, i.kind, i.payload::jsonb, coalesce(i.priority, 0),
            coalesce(i.due, started + coalesce(i.delay, 0) * interval '1 microsecond'),
            coalesce(i.most, 5), i.job_key, i.headers::jsonb, i.job_group, i.ordered, i.cost
        FROM input i
        ORDER BY i.job_key COLLATE "C", i.queue COLLATE "C", i.ord
        ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO NOTHING
        RETURNING j.id, j.queue, j.job_key
    ), result AS (
        SELECT
            i.id, i.queue, i.job_key, i.ord, i.job_key IS NOT NULL AND w.id IS DISTINCT FROM i.id AS duplicate,
            w.id AS written_id
        FROM input i
        LEFT JOIN written w ON w.queue = i.queue AND w.job_key = i.job_key
    )
    SELECT r.id, r.duplicate,
        CASE WHEN r.duplicate THEN coalesce(r.written_id, (
            SELECT live.id FROM "errand".jobs live
            WHERE live.queue = r.queue AND live.job_key = r.job_key AND live.status IN ('pending', 'running', 'held')
        )) END
    FROM result r
    ORDER BY r.ord;
END
$$;
CREATE FUNCTION errand.insert_replacing(queues text[], kinds text[], payloads text, priorities integer[], delays bigint[], dues timestamp with time zone[], max_attempts integer[], job_keys text[], headers text[], job_groups text[], ordered boolean[], replaces boolean[], max_delays bigint[], costs integer[] DEFAULT NULL::integer[]) RETURNS TABLE(id bigint, duplicate boolean, replaced boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
    -- See insert_keyed.
    started    CONSTANT timestamptz := CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END;
    size       CONSTANT integer := cardinality(string_to_array(payloads, E'\x1e'));
    job        record;
    live_id    bigint; -- of the job that has the key, this one included
    is_long    boolean;
    ids        bigint[] := array_fill(0::bigint, ARRAY[size]);
    duplicates boolean[] := array_fill(false, ARRAY[size]);
    replaced   boolean[] := array_fill(false, ARRAY[size]);
BEGIN
    FOR job IN
        WITH input AS MATERIALIZED (
            SELECT
                nextval('"errand".jobs_id_seq') AS id, coalesce(t.queue, queues[1]) AS queue, coalesce(t.kind, kinds[1]) AS kind,
                t.payload, coalesce(t.priority, 0) AS priority,
                coalesce(t.due, started + coalesce(t.delay, 0) * interval '1 microsecond') AS due, t.due IS NOT NULL AS fixed,
                coalesce(t.most, 5) AS most, t.job_key, t.headers, t.job_group, t.ordered, t.cost,
                coalesce(t.replaces, false) AS replaces, t.max_delay * interval '1 microsecond' AS max_delay, t.ord
            FROM unnest(
                queues, kinds, string_to_array(payloads, E'\x1e'), priorities, delays, dues,
                insert_replacing.max_attempts, job_keys, insert_replacing.headers, job_groups, insert_replacing.ordered,
                replaces, max_delays, costs)
                WITH ORDINALITY AS t (
                    queue, kind, payload, priority, delay, due, most, job_key, headers, job_group, ordered, replaces,
                    max_delay, cost, ord)
        )
        SELECT * FROM input i ORDER BY i.job_key COLLATE "C", i.queue COLLATE "C", i.ord
    LOOP
        LOOP
            IF NOT job.replaces THEN
                INSERT INTO "errand".jobs AS j (
                    id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered, cost)
                VALUES (
                    job.id, job.queue, job.kind, job.payload::jsonb, job.priority, job.due, job.most, job.job_key,
                    job.headers::jsonb, job.job_group, job.ordered, job.cost)
                ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO NOTHING
                RETURNING j.id INTO live_id;
                EXIT WHEN FOUND;
                SELECT j.id INTO live_id FROM "errand".jobs j
                WHERE j.queue = job.queue AND j.job_key = job.job_key AND j.status IN ('pending', 'running', 'held');
                EXIT WHEN FOUND;
                CONTINUE; -- that job has just ended
            END IF;
            INSERT INTO "errand".jobs AS j (
                id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered, cost)
            VALUES (
                job.id, job.queue, job.kind, job.payload::jsonb, job.priority, job.due, job.most, job.job_key,
                job.headers::jsonb, job.job_group, job.ordered, job.cost)
            ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO UPDATE
            SET
                kind = excluded.kind, payload = excluded.payload, priority = excluded.priority,
                max_attempts = excluded.max_attempts, headers = excluded.headers,
                job_group = excluded.job_group, ordered = excluded.ordered, cost = excluded.cost,
                attempts = 0, last_error = NULL, updated_at = statement_timestamp(),
                created_at = CASE WHEN j.attempts = 0 THEN j.created_at ELSE excluded.created_at END,
                scheduled_at = (
                    SELECT CASE
                        WHEN job.fixed OR put_off.until > started THEN put_off.until
                        ELSE least(j.scheduled_at, started) END
                    FROM (SELECT least(excluded.scheduled_at, job.max_delay + CASE
                        WHEN j.attempts = 0 THEN least(j.created_at, '9999-12-31Z')
                        ELSE excluded.created_at END) AS until) AS put_off)
            WHERE j.status IN ('pending', 'held')
            RETURNING j.id, greatest(pg_column_size(j.payload), pg_column_size(j.headers)) > 67108864 INTO live_id, is_long;
            IF is_long THEN
                RAISE EXCEPTION 'job replaced by one that violates check constraint "jobs_values_check"' USING
                    ERRCODE = 'check_violation', TABLE = 'jobs', CONSTRAINT = 'jobs_values_check',
                    HINT = 'payload and headers: at most 64 MiB in the table';
            END IF;
            EXIT WHEN FOUND;
            UPDATE "errand".jobs j SET job_key = NULL
            WHERE j.queue = job.queue AND j.job_key = job.job_key AND j.status IN ('pending', 'running', 'held')
                AND j.status NOT IN ('pending', 'held'); -- with = the planner might read jobs_running_idx
        END LOOP;
        ids[job.ord] := live_id;
        duplicates[job.ord] := live_id <> job.id AND NOT job.replaces;
        replaced[job.ord] := live_id <> job.id AND job.replaces;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(ids, duplicates, replaced);
END
$$;
CREATE FUNCTION errand.lock_claims(queue_name text, is_limited boolean, patience bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    usual_timeout CONSTANT text := current_setting('lock_timeout');
    name_hash     CONSTANT integer := hashtext(queue_name);
BEGIN
    IF (NOT is_limited OR pg_try_advisory_xact_lock('"errand".rules'::regclass::integer, name_hash))
        AND pg_try_advisory_xact_lock('"errand".jobs_ordered_one_idx'::regclass::integer, name_hash) THEN
        RETURN true;
    ELSIF patience <= 0 THEN
        RETURN false;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', format('%sus', patience), true);
        IF is_limited THEN
            PERFORM pg_advisory_xact_lock('"errand".rules'::regclass::integer, name_hash);
        END IF;
        PERFORM pg_advisory_xact_lock('"errand".jobs_ordered_one_idx'::regclass::integer, name_hash);
        PERFORM set_config('lock_timeout', usual_timeout, true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    RETURN true;
END
$$;
CREATE FUNCTION errand.lock_due(queues text[], kinds text[], max_jobs integer, row_lock_timeout text, after_priority integer[] DEFAULT NULL::integer[], after_due timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], after_id bigint[] DEFAULT NULL::bigint[], last_priority integer[] DEFAULT NULL::integer[], last_due timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], recent_first boolean DEFAULT false) RETURNS tid[]
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    AS $$
DECLARE
    usual_timeout   CONSTANT text := current_setting('lock_timeout');
    try_every       boolean := CASE WHEN row_lock_timeout IS NULL THEN true
        ELSE pg_try_advisory_xact_lock('"errand".jobs'::regclass::integer, hashtext(concat(queues, kinds))) END;
    now_set         text;
    locked          tid[] := '{}';
    newly_locked    tid[];
    priorities_seen integer;     -- in the span
    head            record;      -- the first job of one priority
    start_due       timestamptz; -- where reading that priority starts
    start_id        bigint;
    passed_over     boolean;     -- a priority was read only from two seconds ago on
    final_priority  integer;     -- the span's last
    final_due       timestamptz; -- the latest due time of jobs in the span
BEGIN
    IF row_lock_timeout IS NOT NULL THEN -- := takes half the time of PERFORM
        now_set := set_config('lock_timeout', row_lock_timeout, true);
    END IF;
    LOOP
        passed_over := false;
        <<spans>>
        FOR i IN 1 .. cardinality(queues) LOOP
            priorities_seen := 1;
            final_priority := coalesce(last_priority[i], 2147483646);
            final_due := least(statement_timestamp(), last_due[i]);
            SELECT j.priority, j.scheduled_at, j.id, j.kind INTO head
            FROM "errand".jobs j
            WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority <= final_priority
                AND (j.priority, j.scheduled_at, j.id) > (
                    coalesce(after_priority[i], -2147483648),
                    coalesce(after_due[i], '-infinity'),
                    coalesce(after_id[i], 0))
            ORDER BY j.priority, j.scheduled_at, j.id
            LIMIT 1;
            WHILE FOUND AND priorities_seen < 1000 LOOP
                IF head.priority = 2147483647 THEN
                    RAISE EXCEPTION 'errand: the queue has ordered jobs, the claim is repeated' USING ERRCODE = 'EORD1';
                END IF;
                IF head.scheduled_at <= statement_timestamp() THEN
                    start_due := head.scheduled_at;
                    start_id := head.id;
                    IF recent_first AND head.kind <> ALL (kinds)
                        AND head.scheduled_at < statement_timestamp() - interval '2 seconds' THEN
                        PERFORM FROM "errand".jobs j
                        WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority = head.priority
                            AND j.scheduled_at <= final_due AND (j.scheduled_at, j.id) >= (head.scheduled_at, head.id)
                        ORDER BY j.priority, j.scheduled_at, j.id
                        OFFSET 5000 LIMIT 1;
                        IF FOUND THEN
                            start_due := statement_timestamp() - interval '2 seconds';
                            start_id := -9223372036854775808;
                            passed_over := true;
                        END IF;
                    END IF;
                    newly_locked := ARRAY(
                        SELECT j.ctid
                        FROM "errand".jobs j
                        WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority = head.priority
                            AND j.scheduled_at <= final_due AND (j.scheduled_at, j.id) >= (start_due, start_id)
                            AND (kinds IS NULL OR j.kind = ANY (kinds)) AND (try_every OR j.xmax = '0')
                        ORDER BY j.priority, j.scheduled_at, j.id
                        LIMIT max_jobs - cardinality(locked)
                        FOR UPDATE SKIP LOCKED
                    );
                    locked := locked || newly_locked;
                    EXIT spans WHEN cardinality(locked) = max_jobs;
                END IF;
                priorities_seen := priorities_seen + 1;
                SELECT j.priority, j.scheduled_at, j.id, j.kind INTO head
                FROM "errand".jobs j
                WHERE j.queue = queues[i] AND j.status = 'pending'
                    AND j.priority > head.priority AND j.priority <= final_priority
                ORDER BY j.priority, j.scheduled_at, j.id
                LIMIT 1;
            END LOOP;
            IF FOUND THEN
                newly_locked := ARRAY(
                    SELECT j.ctid
                    FROM "errand".jobs j
                    WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority <= least(final_priority, 2147483646)
                        AND j.scheduled_at <= final_due
                        AND (j.priority, j.scheduled_at, j.id) >= (head.priority, head.scheduled_at, head.id)
                        AND (kinds IS NULL OR j.kind = ANY (kinds)) AND (try_every OR j.xmax = '0')
                    ORDER BY j.priority, j.scheduled_at, j.id
                    LIMIT max_jobs - cardinality(locked)
                    FOR UPDATE SKIP LOCKED
                );
                locked := locked || newly_locked;
                EXIT spans WHEN cardinality(locked) = max_jobs;
            END IF;
        END LOOP;
        EXIT WHEN cardinality(locked) > 0 OR (try_every AND NOT passed_over);
        try_every := true;
        recent_first := false;
    END LOOP;
    IF row_lock_timeout IS NOT NULL THEN
        now_set := set_config('lock_timeout', usual_timeout, true);
    END IF;
    RETURN locked;
END
$$;
CREATE FUNCTION errand.lock_group(queue_name text, group_name text, kinds text[], max_jobs integer) RETURNS tid[]
    LANGUAGE plpgsql
    AS $$
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
    FROM "errand".jobs p
    WHERE p.queue = lock_queue AND p.job_group = lock_name AND p.ordered IS NULL
        AND p.status BETWEEN 'pending' AND 'pending'
    ORDER BY p.job_group, p.priority, p.kind COLLATE "C", p.scheduled_at, p.id
    LIMIT 1;
    WHILE FOUND LOOP
        before := locked;
        FOREACH spare IN ARRAY '{0, 100}'::integer[] LOOP -- the jobs that the first time has locked come first again
            locked := before || ARRAY(
                SELECT l.ctid
                FROM "errand".group_jobs(lock_queue, lock_name, head.priority, head.kind, kinds, due,
                    max_jobs - cardinality(before) + spare) AS f
                CROSS JOIN LATERAL (
                    SELECT j.ctid
                    FROM "errand".jobs j
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
        FROM "errand".jobs p
        WHERE p.queue = lock_queue AND p.job_group = lock_name AND p.ordered IS NULL
            AND p.status BETWEEN 'pending' AND 'pending'
            AND p.priority > head.priority
        ORDER BY p.job_group, p.priority, p.kind COLLATE "C", p.scheduled_at, p.id
        LIMIT 1;
    END LOOP;
    RETURN locked;
END
$$;
CREATE FUNCTION errand.lock_ordered(queue_name text, kinds text[], max_jobs integer, after_group text, row_lock_timeout text, OUT places tid[], OUT last_group text, OUT visited integer, OUT has_more boolean) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_incremental_sort TO 'off'
    AS $$
DECLARE
    usual_timeout CONSTANT text := current_setting('lock_timeout');
    first_group text := after_group; -- the walk begins behind it
    final_group text := NULL;        -- and ends with it; NULL for the last
    passed_over integer := 0;
    walk        record;
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    PERFORM pg_advisory_xact_lock('"errand".jobs_ordered_one_idx'::regclass::integer, hashtext(queue_name));
    PERFORM set_config('lock_timeout', row_lock_timeout, true);
    places := '{}';
    last_group := after_group;
    visited := 0;
    LOOP
        WITH RECURSIVE heads (job_group, place, is_due, nth, found) AS (
            SELECT first_group COLLATE "C", NULL::tid, false, 0, 0
            UNION ALL
            SELECT n.job_group, n.place, n.is_due, h.nth + 1, h.found + n.is_due::integer
            FROM heads h
            CROSS JOIN LATERAL (
                SELECT
                    p.job_group, p.ctid AS place,
                    p.status = 'pending' AND p.scheduled_at <= clock_timestamp() AND (kinds IS NULL OR p.kind = ANY (kinds))
                        AND (final_group IS NULL OR p.job_group <= final_group)
                        AND NOT EXISTS (
                            SELECT FROM "errand".jobs r
                            WHERE r.queue = queue_name AND r.job_group = p.job_group AND r.ordered AND r.status = 'running'
                        )
                        AND NOT EXISTS (
                            SELECT FROM "errand".rules x
                            WHERE x.queue = queue_name AND x.job_group = p.job_group AND x.paused
                        ) AS is_due
                FROM "errand".jobs p
                WHERE p.queue = queue_name AND p.job_group > h.job_group AND p.ordered AND p.status IN ('pending', 'held')
                ORDER BY p.job_group, p.id
                LIMIT 1
            ) AS n
            WHERE h.found < max_jobs - cardinality(places) AND h.nth - h.found < 1000 - passed_over
                AND (final_group IS NULL OR h.job_group < final_group)
        )
        SELECT
            coalesce(array_agg(h.place) FILTER (WHERE h.is_due), '{}') AS due, max(h.job_group) AS last_group,
            max(h.nth) AS groups, max(h.found) AS found
        INTO walk
        FROM heads h;
        has_more := walk.found = max_jobs - cardinality(places) OR walk.groups - walk.found = 1000 - passed_over;
        places := places || ARRAY(
            SELECT j.ctid FROM "errand".jobs j
            WHERE j.ctid = ANY (walk.due) AND j.status BETWEEN 'pending' AND 'pending' -- see settle.sql
            FOR UPDATE SKIP LOCKED
        );
        visited := visited + walk.groups;
        passed_over := passed_over + walk.groups - walk.found;
        IF walk.groups > 0 THEN
            last_group := walk.last_group;
        END IF;
        EXIT WHEN has_more OR final_group IS NOT NULL OR after_group = '';
        first_group := '';
        final_group := after_group;
    END LOOP;
    PERFORM set_config('lock_timeout', usual_timeout, true);
END
$$;
CREATE FUNCTION errand.lock_spans(queue_name text, kinds text[], max_jobs integer, ungrouped boolean, spans jsonb, OUT places tid[], OUT is_cut boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
        FROM "errand".jobs p
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
                        FROM "errand".jobs p
                        WHERE p.queue = queue_name AND p.status = 'pending' AND p.priority = head.priority
                            AND p.scheduled_at <= span.until AND (p.scheduled_at, p.id) >= (head.scheduled_at, head.id)
                        ORDER BY p.priority, p.scheduled_at, p.id
                        LIMIT most_read
                    ) AS f
                    CROSS JOIN LATERAL (
                        SELECT j.ctid
                        FROM "errand".jobs j
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
                    PERFORM FROM "errand".jobs p
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
            FROM "errand".jobs p
            WHERE p.queue = queue_name AND p.status = 'pending'
                AND p.priority > head.priority AND p.priority <= span.last
            ORDER BY p.priority, p.scheduled_at, p.id
            LIMIT 1;
        END LOOP;
    END LOOP;
END
$$;
CREATE FUNCTION errand.lock_turns(queue_name text, kinds text[], room integer, per_group integer, share integer, unmarked text[], after_group text, each bigint, most_tokens bigint, now_ns bigint, spans jsonb, OUT places tid[], OUT saw text, OUT last_group text, OUT held_back boolean, OUT has_more boolean, OUT wait bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    due        CONSTANT timestamptz := clock_timestamp();
    has_rules  CONSTANT boolean := EXISTS (SELECT FROM "errand".rules r WHERE r.queue = queue_name AND r.job_group > '');
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
                    FROM "errand".jobs p
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
                    FROM "errand".jobs p
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
                FROM "errand".rules r
                WHERE has_rules AND r.queue = queue_name AND r.job_group = h.job_group
            ) AS s
            CROSS JOIN LATERAL (
                SELECT
                    least(greatest(now_ns + s.most_tokens * s.each - b.full_at, 0) / s.each, 1000000) AS tokens,
                    CASE WHEN now_ns + (s.most_tokens - 1) * s.each < b.full_at
                        THEN "errand".bucket_wait(b.full_at, s.each, s.most_tokens, now_ns) END AS wait
                FROM (
                    SELECT CASE WHEN s.each IS NOT NULL
                        THEN "errand".bucket_full(queue_name, h.job_group, s.each, s.most_tokens, now_ns) END AS full_at
                    OFFSET 0
                ) AS b
            ) AS t
            CROSS JOIN LATERAL (
                SELECT least(t.tokens, CASE
                    WHEN s.paused THEN 0
                    WHEN s.most <= 0 OR t.tokens <= 0 THEN 1000000
                    ELSE s.most - (SELECT count(*) FROM unnest(unmarked) AS u (job_group) WHERE u.job_group = h.job_group) - (
                        SELECT count(*) FROM (
                            SELECT FROM "errand".jobs r
                            WHERE r.queue = queue_name AND r.job_group = h.job_group AND r.limited AND r.status = 'running'
                            LIMIT s.most
                        ) AS runs)
                    END)::integer AS free
                OFFSET 0 -- free is worked out once
            ) AS f
            CROSS JOIN LATERAL (
                SELECT CASE WHEN f.free > 0 THEN ARRAY(
                    SELECT l.ctid
                    FROM "errand".group_jobs(queue_name, h.job_group, h.priority, h.kind, kinds, due,
                        least(f.free, s.share, room)) AS g
                    LEFT JOIN LATERAL (
                        SELECT j.ctid
                        FROM "errand".jobs j
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
                    SELECT FROM "errand".jobs p
                    WHERE p.queue = queue_name AND p.job_group = turn.job_group AND p.ordered IS NULL
                        AND p.status BETWEEN 'pending' AND 'pending'
                        AND p.priority > turn.priority
                )) THEN
                    got := "errand".lock_group(queue_name, turn.job_group, kinds, most);
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
            SELECT l.places, l.is_cut INTO ungrouped FROM "errand".lock_spans(queue_name, kinds, most, true, spans) AS l;
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
                FROM "errand".lock_spans(queue_name, kinds, turn_most, true, spans) AS l;
                got := ungrouped.places;
                saw := CASE WHEN ungrouped.is_cut THEN 'cut' WHEN cardinality(got) < turn_most THEN 'all' ELSE '' END;
            ELSE
                got := "errand".lock_group(queue_name, again[i], kinds, turn_most);
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
CREATE FUNCTION errand.mark_limited(queue_name text) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    unmarked text[];
BEGIN
    UPDATE "errand".jobs j SET limited = true
    WHERE j.ctid = ANY (ARRAY(
        SELECT r.ctid FROM "errand".jobs r
        WHERE r.status = 'running' AND r.queue = queue_name AND r.limited IS NULL
        FOR NO KEY UPDATE SKIP LOCKED));
    unmarked := ARRAY(
        SELECT coalesce(r.job_group, '') FROM "errand".jobs r
        WHERE r.status = 'running' AND r.queue = queue_name AND r.limited IS NULL);
    IF cardinality(unmarked) = 0 THEN
        UPDATE "errand".limited_queues l SET marked = l.since IS NOT NULL, since = coalesce(l.since, clock_timestamp())
        WHERE l.ctid = ANY (ARRAY(
            SELECT q.ctid FROM "errand".limited_queues q
            WHERE q.queue = queue_name AND coalesce(q.since < clock_timestamp() - interval '1 minute', true)
            FOR NO KEY UPDATE SKIP LOCKED));
    END IF;
    RETURN unmarked;
END
$$;
CREATE FUNCTION errand.nanoseconds(at timestamp with time zone) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT (extract(epoch FROM at) * 1000000)::bigint * 1000
$$;
CREATE FUNCTION errand.pause_rule(queue text, job_group text, paused boolean, wake boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
    UPDATE "errand".rules_version SET version = version + 1;
    INSERT INTO "errand".rules (queue, job_group, paused, running, per_group, share)
    VALUES (pause_rule.queue, pause_rule.job_group, pause_rule.paused, 0, 0, 0)
    ON CONFLICT (queue, job_group) DO UPDATE SET paused = excluded.paused;
    PERFORM "errand".apply_rules(ARRAY[pause_rule.queue], pause_rule.wake);
END
$$;
CREATE FUNCTION errand.payload_problem(payload jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    AS $_$
DECLARE
    longest CONSTANT integer := 1048576;
    digits  CONSTANT integer := 4000;
    shown   text;
    size    integer;
BEGIN
    IF jsonb_path_exists(payload, 'strict $.**{1000} ? (@.type() == "array" || @.type() == "object")') THEN
        RETURN 'nested deeper than 1000';
    ELSIF jsonb_path_exists(payload, 'strict $.** ? (@ >= 1e4001 || @ <= -1e4001)') THEN
        RETURN 'a number beyond 1e±4000';
    END IF;
    shown := payload::text;
    size := octet_length(shown);
    IF size > 2 * longest THEN -- less than half of it is spaces
        RETURN format('more than %s bytes', longest);
    ELSIF size <= longest AND position(repeat('0', digits + 1) IN translate(shown, '123456789.', '0000000000')) = 0 THEN
        RETURN NULL; -- nearly every payload
    END IF;
    -- Without its strings: there a space follows each comma and colon, and digits belong to numbers.
    shown := regexp_replace(shown, '"(?:[^"\\]|\\.)*"', '""', 'g');
    IF size - (length(shown) - length(replace(shown, ' ', ''))) > longest THEN
        RETURN format('more than %s bytes', longest);
    ELSIF EXISTS (
        SELECT FROM regexp_matches(shown, '[0-9]+(?:\.[0-9]+)?', 'g') AS m (number)
        WHERE length(m.number[1]) > digits
            AND (length(btrim(replace(m.number[1], '.', ''), '0')) > digits OR length(split_part(m.number[1], '.', 2)) > digits)
    ) THEN
        RETURN format('a number of more than %s digits', digits);
    END IF;
    RETURN NULL;
END
$_$;
CREATE FUNCTION errand.refuse_size() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'new row for relation "jobs" violates check constraint "jobs_values_check"' USING
        ERRCODE = 'check_violation', TABLE = 'jobs', CONSTRAINT = 'jobs_values_check',
        HINT = 'payload and headers: at most 64 MiB in the table';
END
$$;
CREATE FUNCTION errand.rules_changed() RETURNS tid[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'errand: the rules have changed, the claim is repeated' USING ERRCODE = 'ERUL1';
END
$$;
CREATE FUNCTION errand.sequences_behind() RETURNS TABLE(sequence text, last bigint, used bigint)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    WITH used AS MATERIALIZED (
        SELECT
            greatest((SELECT max(id) FROM "errand".jobs), (SELECT max(job_id) FROM "errand".results)) AS jobs,
            (SELECT max(id) FROM "errand".audit) AS audit,
            (SELECT max(fence) FROM "errand".jobs WHERE status = 'running') AS fences
    )
    SELECT b.sequence, b.last, b.used
    FROM used u
    CROSS JOIN LATERAL (
        SELECT 'jobs_id_seq', CASE WHEN s.is_called THEN s.last_value ELSE 0 END, u.jobs FROM "errand".jobs_id_seq s
        UNION ALL
        SELECT 'audit_id_seq', CASE WHEN s.is_called THEN s.last_value ELSE 0 END, u.audit FROM "errand".audit_id_seq s
        UNION ALL
        SELECT 'fences', CASE WHEN s.is_called THEN s.last_value ELSE 0 END, u.fences FROM "errand".fences s
    ) AS b (sequence, last, used)
    WHERE b.last < b.used
$$;
CREATE FUNCTION errand.set_rules(queues text[], groups text[], paused boolean[], running integer[], per_group integer[], share integer[], hold_dead boolean[], rate_jobs integer[], rate_per bigint[], rate_burst integer[], group_rate_jobs integer[], group_rate_per bigint[], group_rate_burst integer[], wake boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    UPDATE "errand".rules_version SET version = version + 1;
    INSERT INTO "errand".rules AS r (
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
    PERFORM "errand".apply_rules(queues, wake);
END
$$;
CREATE FUNCTION errand.spend(queue_name text, all_places tid[], now_ns bigint, queue_each bigint, queue_most bigint, group_each bigint, group_most bigint, OUT places tid[], OUT hold bigint, OUT wait bigint) RETURNS record
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    WITH jobs AS MATERIALIZED (
        SELECT p.place, p.nth, coalesce(j.job_group, '') AS bucket, greatest(j.cost, 1)::numeric AS cost
        FROM unnest(all_places) WITH ORDINALITY AS p (place, nth)
        CROSS JOIN LATERAL (SELECT x.job_group, x.cost FROM "errand".jobs x WHERE x.ctid = p.place OFFSET 0) AS j
    ), buckets AS MATERIALIZED (
        SELECT g.bucket, r.each, r.most, "errand".bucket_full(queue_name, g.bucket, r.each, r.most, now_ns) AS full_at
        FROM (SELECT DISTINCT bucket FROM jobs WHERE bucket > '') AS g
        CROSS JOIN LATERAL (
            SELECT
                CASE WHEN coalesce(max(x.group_rate_jobs), 0) = 0 THEN group_each ELSE max(x.group_rate_each) END AS each,
                CASE WHEN coalesce(max(x.group_rate_jobs), 0) = 0 THEN group_most ELSE max(x.group_rate_most) END AS most
            FROM "errand".rules x
            WHERE x.queue = queue_name AND x.job_group = g.bucket
        ) AS r
        WHERE r.each IS NOT NULL
        UNION ALL
        SELECT '', queue_each, queue_most, "errand".bucket_full(queue_name, '', queue_each, queue_most, now_ns)
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
        INSERT INTO "errand".tokens (queue, job_group, at, full_at, each)
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
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE errand.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    selection text,
    count bigint NOT NULL,
    reason text,
    job_id bigint
);
ALTER TABLE errand.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME errand.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE errand.dedup (
    key text NOT NULL,
    until timestamp with time zone NOT NULL
);
CREATE SEQUENCE errand.fences
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE errand.jobs (
    id bigint NOT NULL,
    fence bigint DEFAULT 0 NOT NULL,
    scheduled_at errand.due_time DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    status errand.job_status DEFAULT 'pending'::errand.job_status NOT NULL,
    priority integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    max_attempts errand.attempt_limit DEFAULT 5 NOT NULL,
    queue errand.job_name DEFAULT 'default'::text NOT NULL,
    kind errand.job_name DEFAULT 'default'::text NOT NULL,
    locked_at timestamp with time zone,
    locked_until timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    locked_by text,
    payload jsonb DEFAULT 'null'::jsonb NOT NULL,
    last_error text,
    headers jsonb,
    job_key text,
    job_group text COLLATE pg_catalog."C",
    ordered boolean,
    limited boolean,
    cost integer,
    redriven_at timestamp with time zone,
    redrives integer,
    cancel_at timestamp with time zone,
    history jsonb
)
WITH (fillfactor='70', vacuum_truncate='false', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_insert_scale_factor='0', autovacuum_vacuum_insert_threshold='100000', autovacuum_analyze_scale_factor='0.05', autovacuum_analyze_threshold='20000', autovacuum_vacuum_cost_delay='1');
CREATE TABLE errand.jobs_archive (
    id bigint NOT NULL,
    fence bigint NOT NULL,
    scheduled_at errand.due_time NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    status errand.job_status NOT NULL,
    priority integer NOT NULL,
    attempts integer NOT NULL,
    max_attempts errand.attempt_limit NOT NULL,
    queue errand.job_name NOT NULL,
    kind errand.job_name NOT NULL,
    locked_at timestamp with time zone,
    locked_until timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    locked_by text,
    payload jsonb NOT NULL,
    last_error text,
    headers jsonb,
    job_key text,
    job_group text COLLATE pg_catalog."C",
    ordered boolean,
    limited boolean,
    cost integer,
    redriven_at timestamp with time zone,
    redrives integer,
    cancel_at timestamp with time zone,
    history jsonb
);
ALTER TABLE errand.jobs ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME errand.jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE errand.limited_queues (
    queue text NOT NULL COLLATE pg_catalog."C",
    since timestamp with time zone,
    marked boolean DEFAULT false NOT NULL
);
CREATE TABLE errand.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE errand.paused_kinds (
    kind text NOT NULL COLLATE pg_catalog."C",
    since timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE errand.results (
    job_id bigint NOT NULL,
    output jsonb,
    progress jsonb,
    progress_at timestamp with time zone
);
CREATE TABLE errand.rules (
    queue text NOT NULL COLLATE pg_catalog."C",
    job_group text NOT NULL COLLATE pg_catalog."C",
    paused boolean NOT NULL,
    running integer NOT NULL,
    per_group integer NOT NULL,
    share integer NOT NULL,
    hold_dead boolean DEFAULT false NOT NULL,
    rate_jobs integer DEFAULT 0 NOT NULL,
    rate_per bigint DEFAULT 0 NOT NULL,
    rate_burst integer DEFAULT 0 NOT NULL,
    group_rate_jobs integer DEFAULT 0 NOT NULL,
    group_rate_per bigint DEFAULT 0 NOT NULL,
    group_rate_burst integer DEFAULT 0 NOT NULL,
    rate_each bigint GENERATED ALWAYS AS (
CASE
    WHEN (rate_jobs > 0) THEN (((COALESCE(NULLIF(rate_per, 0), (1000000000)::bigint) + rate_jobs) - 1) / rate_jobs)
    ELSE NULL::bigint
END) STORED,
    rate_most bigint GENERATED ALWAYS AS (
CASE
    WHEN (rate_jobs > 0) THEN COALESCE((NULLIF(rate_burst, 0))::bigint, GREATEST(((rate_jobs * (100000000)::bigint) / COALESCE(NULLIF(rate_per, 0), (1000000000)::bigint)), (1)::bigint))
    ELSE NULL::bigint
END) STORED,
    group_rate_each bigint GENERATED ALWAYS AS (
CASE
    WHEN (group_rate_jobs > 0) THEN (((COALESCE(NULLIF(group_rate_per, 0), (1000000000)::bigint) + group_rate_jobs) - 1) / group_rate_jobs)
    ELSE NULL::bigint
END) STORED,
    group_rate_most bigint GENERATED ALWAYS AS (
CASE
    WHEN (group_rate_jobs > 0) THEN COALESCE((NULLIF(group_rate_burst, 0))::bigint, GREATEST(((group_rate_jobs * (100000000)::bigint) / COALESCE(NULLIF(group_rate_per, 0), (1000000000)::bigint)), (1)::bigint))
    ELSE NULL::bigint
END) STORED,
    is_limit boolean GENERATED ALWAYS AS ((paused OR (running > 0) OR (per_group <> 0) OR (share > 0) OR (rate_jobs <> 0) OR (group_rate_jobs <> 0))) STORED
);
CREATE TABLE errand.rules_version (
    version bigint NOT NULL,
    is_only boolean DEFAULT true NOT NULL,
    CONSTRAINT rules_version_is_only_check CHECK (is_only)
);
CREATE TABLE errand.schedules (
    name text NOT NULL,
    spec text NOT NULL,
    zone text DEFAULT ''::text NOT NULL,
    job jsonb NOT NULL,
    missed text DEFAULT 'last'::text NOT NULL,
    grace bigint DEFAULT 0 NOT NULL,
    overlap boolean DEFAULT false NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    next_at timestamp with time zone,
    last_tick timestamp with time zone,
    last_job bigint,
    skipped bigint DEFAULT 0 NOT NULL,
    version bigint NOT NULL,
    digest text,
    release bigint DEFAULT 0 NOT NULL,
    edited boolean DEFAULT false NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    kind text GENERATED ALWAYS AS ((job ->> 'kind'::text)) STORED,
    queue text GENERATED ALWAYS AS ((job ->> 'queue'::text)) STORED,
    declared boolean GENERATED ALWAYS AS ((digest IS NOT NULL)) STORED,
    CONSTRAINT schedules_missed_check CHECK ((missed = ANY (ARRAY['last'::text, 'skip'::text, 'all'::text]))),
    CONSTRAINT schedules_name_check CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT schedules_next_at_check CHECK (isfinite(next_at))
);
CREATE UNLOGGED TABLE errand.sleepers (
    queue text NOT NULL,
    worker text NOT NULL,
    registration bigint NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
CREATE TABLE errand.stats (
    minute timestamp with time zone NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    done bigint NOT NULL,
    failed bigint NOT NULL,
    dead bigint NOT NULL,
    lost bigint NOT NULL,
    ran bigint NOT NULL,
    waited bigint NOT NULL,
    run_times integer[] NOT NULL,
    wait_times integer[] NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');
CREATE TABLE errand.tokens (
    queue text NOT NULL COLLATE pg_catalog."C",
    job_group text NOT NULL COLLATE pg_catalog."C",
    at bigint DEFAULT 0 NOT NULL,
    full_at bigint DEFAULT 0 NOT NULL,
    each bigint DEFAULT 0 NOT NULL,
    until bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
CREATE UNLOGGED TABLE errand.workers (
    worker text NOT NULL COLLATE pg_catalog."C",
    info jsonb NOT NULL,
    started_at timestamp with time zone NOT NULL,
    claimed_at timestamp with time zone,
    draining_at timestamp with time zone,
    seen_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
INSERT INTO errand.audit OVERRIDING SYSTEM VALUE VALUES (1, '2026-11-28 19:04:40.381874+00', 'ada', 'jobs.redrive', NULL, 3, NULL, NULL);
INSERT INTO errand.jobs VALUES (10, 0, '2026-11-28 19:04:40.396649+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.396318+00', 'pending', 0, 0, 5, 'default', 'greeting', NULL, NULL, NULL, NULL, NULL, '"held by its key"', NULL, NULL, 'key', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (5, 0, '2026-11-28 19:04:40.396649+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.396318+00', 'pending', 0, 0, 5, 'default', 'greeting', NULL, NULL, NULL, NULL, NULL, '"plain"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (6, 0, '2026-11-28 19:04:41.396649+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.396318+00', 'pending', 0, 0, 5, 'default', 'greeting', NULL, NULL, NULL, NULL, NULL, '"delayed"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (7, 0, '2126-01-01 00:00:00+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.396318+00', 'pending', 0, 0, 5, 'default', 'greeting', NULL, NULL, NULL, NULL, NULL, '"of the next century"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (8, 0, '2026-11-28 19:04:40.396649+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.396318+00', 'pending', 2147483647, 0, 5, 'default', 'greeting', NULL, NULL, NULL, NULL, NULL, '"first of its group"', NULL, NULL, NULL, 'a', true, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (9, 0, '2026-11-28 19:04:40.396649+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.396318+00', 'pending', 2147483647, 0, 5, 'default', 'greeting', NULL, NULL, NULL, NULL, NULL, '"second of its group"', NULL, NULL, NULL, 'a', true, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (11, 0, '2026-11-28 19:04:40.396649+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.396318+00', 'pending', 0, 0, 5, 'limited', 'greeting', NULL, NULL, NULL, NULL, NULL, '"limited"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (12, 0, '2026-11-28 19:04:40.396649+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.396318+00', 'pending', 0, 0, 5, 'paused', 'greeting', NULL, NULL, NULL, NULL, NULL, '"paused"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (13, 0, '2026-11-28 19:04:40.396649+00', '2026-11-28 19:04:40.396318+00', '2026-11-28 19:04:40.400421+00', 'cancelled', 0, 0, 5, 'default', 'greeting', NULL, NULL, NULL, '2026-11-28 19:04:40.400421+00', NULL, '"cancelled"', NULL, NULL, 'unwanted', NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-28 19:04:40.400421+00', NULL);
INSERT INTO errand.jobs VALUES (1, 1, '2026-11-28 19:04:40.383082+00', '2026-11-28 19:04:40.382424+00', '2026-11-28 19:04:40.387847+00', 'completed', 0, 1, 5, 'default', 'greeting', NULL, NULL, '2026-11-28 19:04:40.385186+00', '2026-11-28 19:04:40.387847+00', 'of then', '"done"', NULL, NULL, 'done', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.jobs VALUES (2, -2, '2026-11-28 19:04:40.388506+00', '2026-11-28 19:04:40.388418+00', '2026-11-28 19:04:40.392039+00', 'dead', 0, 1, 5, 'default', 'greeting', NULL, NULL, '2026-11-28 19:04:40.388796+00', '2026-11-28 19:04:40.392039+00', NULL, '"redriven"', 'it broke', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"at": "2026-11-28T19:04:40.392039+00:00", "error": "it broke", "worker": "of then", "attempt": 1, "took_ns": 3243000}]');
INSERT INTO errand.jobs VALUES (3, -3, '2026-11-28 19:04:41.39481+00', '2026-11-28 19:04:40.392795+00', '2026-11-28 19:04:40.39481+00', 'pending', 0, 1, 5, 'default', 'greeting', NULL, NULL, NULL, NULL, NULL, '"failed once"', 'a failure', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[{"at": "2026-11-28T19:04:40.39481+00:00", "error": "a failure", "worker": "of then", "attempt": 1, "took_ns": 1525000}]');
INSERT INTO errand.jobs VALUES (4, 4, '2026-11-28 19:04:40.395226+00', '2026-11-28 19:04:40.39514+00', '2026-11-28 19:04:40.395622+00', 'running', 0, 1, 5, 'default', 'greeting', '2026-11-28 19:04:40.395622+00', '2026-11-28 19:04:41.395622+00', '2026-11-28 19:04:40.395622+00', NULL, 'of then', '"of a worker that died"', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO errand.limited_queues VALUES ('limited', NULL, false);
INSERT INTO errand.limited_queues VALUES ('paused', NULL, false);
INSERT INTO errand.migrations VALUES (1, 'jobs', '2026-11-28 19:04:40.315417+00');
INSERT INTO errand.migrations VALUES (2, 'enqueue', '2026-11-28 19:04:40.334011+00');
INSERT INTO errand.migrations VALUES (3, 'claim', '2026-11-28 19:04:40.344515+00');
INSERT INTO errand.migrations VALUES (4, 'ordered', '2026-11-28 19:04:40.346192+00');
INSERT INTO errand.migrations VALUES (5, 'rules', '2026-11-28 19:04:40.347936+00');
INSERT INTO errand.migrations VALUES (6, 'limited', '2026-11-28 19:04:40.352769+00');
INSERT INTO errand.migrations VALUES (7, 'schedules', '2026-11-28 19:04:40.357674+00');
INSERT INTO errand.migrations VALUES (8, 'workers', '2026-11-28 19:04:40.359753+00');
INSERT INTO errand.migrations VALUES (9, 'audit', '2026-11-28 19:04:40.361216+00');
INSERT INTO errand.migrations VALUES (10, 'pause', '2026-11-28 19:04:40.362839+00');
INSERT INTO errand.migrations VALUES (11, 'stats', '2026-11-28 19:04:40.363648+00');
INSERT INTO errand.migrations VALUES (12, 'schedule_kinds', '2026-11-28 19:04:40.365021+00');
INSERT INTO errand.migrations VALUES (13, 'changed_rates', '2026-11-28 19:04:40.367529+00');
INSERT INTO errand.migrations VALUES (14, 'one_version', '2026-11-28 19:04:40.368475+00');
INSERT INTO errand.migrations VALUES (15, 'keys', '2026-11-28 19:04:40.369945+00');
INSERT INTO errand.migrations VALUES (16, 'sequences', '2026-11-28 19:04:40.371854+00');
INSERT INTO errand.migrations VALUES (17, 'lock_claims', '2026-11-28 19:04:40.375821+00');
INSERT INTO errand.results VALUES (1, '"an output"', NULL, NULL);
INSERT INTO errand.rules VALUES ('limited', '', false, 1, 0, 0, false, 100, 60000000000, 0, 0, 0, 0, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT);
INSERT INTO errand.rules VALUES ('paused', '', true, 0, 0, 0, false, 0, 0, 0, 0, 0, 0, DEFAULT, DEFAULT, DEFAULT, DEFAULT, DEFAULT);
INSERT INTO errand.rules_version VALUES (1, true);
INSERT INTO errand.schedules VALUES ('yearly', '5 20 28 11 *', 'Europe/Berlin', '{"id": 0, "kind": "greeting", "queue": "", "attempt": 0, "payload": "tick", "priority": 0, "max_attempts": 0}', 'last', 0, false, false, '2026-11-28 19:05:00+00', NULL, NULL, 0, 1, NULL, 0, false, false, '2026-11-28 19:04:40.379178+00', DEFAULT, DEFAULT, DEFAULT);
SELECT pg_catalog.setval('errand.audit_id_seq', 1, true);
SELECT pg_catalog.setval('errand.fences', 4, true);
SELECT pg_catalog.setval('errand.jobs_id_seq', 13, true);
ALTER TABLE ONLY errand.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY errand.dedup
    ADD CONSTRAINT dedup_pkey PRIMARY KEY (key);
ALTER TABLE ONLY errand.jobs_archive
    ADD CONSTRAINT jobs_archive_pkey PRIMARY KEY (id, updated_at);
ALTER TABLE ONLY errand.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY errand.limited_queues
    ADD CONSTRAINT limited_queues_pkey PRIMARY KEY (queue);
ALTER TABLE ONLY errand.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY errand.paused_kinds
    ADD CONSTRAINT paused_kinds_pkey PRIMARY KEY (kind);
ALTER TABLE ONLY errand.results
    ADD CONSTRAINT results_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY errand.rules
    ADD CONSTRAINT rules_pkey PRIMARY KEY (queue, job_group);
ALTER TABLE ONLY errand.rules_version
    ADD CONSTRAINT rules_version_pkey PRIMARY KEY (is_only);
ALTER TABLE ONLY errand.schedules
    ADD CONSTRAINT schedules_pkey PRIMARY KEY (name);
ALTER TABLE ONLY errand.sleepers
    ADD CONSTRAINT sleepers_pkey PRIMARY KEY (queue, worker);
ALTER TABLE ONLY errand.stats
    ADD CONSTRAINT stats_pkey PRIMARY KEY (minute, queue, kind);
ALTER TABLE ONLY errand.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (queue, job_group);
ALTER TABLE ONLY errand.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (worker);
CREATE INDEX audit_job_idx ON errand.audit USING btree (job_id, id) WHERE (job_id IS NOT NULL);
CREATE INDEX dedup_until_idx ON errand.dedup USING btree (until);
CREATE INDEX jobs_group_idx ON errand.jobs USING btree (queue, job_group, priority, kind COLLATE "C", scheduled_at, id) WHERE ((job_group IS NOT NULL) AND (ordered IS NULL) AND ((status >= 'pending'::errand.job_status) AND (status <= 'pending'::errand.job_status)));
CREATE UNIQUE INDEX jobs_key_idx ON errand.jobs USING btree (queue, job_key) WHERE ((job_key IS NOT NULL) AND (status = ANY (ARRAY['pending'::errand.job_status, 'running'::errand.job_status, 'held'::errand.job_status])));
CREATE INDEX jobs_limited_idx ON errand.jobs USING btree (queue, job_group) WHERE (limited AND (status = 'running'::errand.job_status));
CREATE INDEX jobs_ordered_idx ON errand.jobs USING btree (queue, job_group, id) WHERE (ordered AND (status = ANY (ARRAY['pending'::errand.job_status, 'held'::errand.job_status])));
CREATE UNIQUE INDEX jobs_ordered_one_idx ON errand.jobs USING btree (queue, job_group) WHERE (ordered AND (status = 'running'::errand.job_status));
CREATE INDEX jobs_pending_idx ON errand.jobs USING btree (queue, priority, scheduled_at, id) WHERE (status = 'pending'::errand.job_status);
CREATE INDEX jobs_running_idx ON errand.jobs USING btree (locked_at) WHERE (status = 'running'::errand.job_status);
CREATE INDEX jobs_stopped_id_idx ON errand.jobs USING btree (status, id, queue, kind) WHERE (status = ANY (ARRAY['dead'::errand.job_status, 'held'::errand.job_status, 'cancelled'::errand.job_status]));
CREATE INDEX jobs_stopped_idx ON errand.jobs USING btree (status, updated_at, id) WHERE (status = ANY (ARRAY['dead'::errand.job_status, 'held'::errand.job_status, 'cancelled'::errand.job_status]));
CREATE INDEX rules_rates_idx ON errand.rules USING btree (queue) WHERE ((rate_jobs > 0) OR (group_rate_jobs > 0));
CREATE INDEX schedules_next_idx ON errand.schedules USING btree (next_at) WHERE (next_at IS NOT NULL);
CREATE TRIGGER jobs_values_check_insert AFTER INSERT ON errand.jobs FOR EACH ROW WHEN ((GREATEST(pg_column_size(new.payload), pg_column_size(new.headers)) > 67108864)) EXECUTE FUNCTION errand.refuse_size();
