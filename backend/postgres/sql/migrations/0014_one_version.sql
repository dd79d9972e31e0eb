-- claim_limited as in 0006_limited.sql, but it looks at the version of the rules again before it uses the places. It reads
-- the rules of the queue and those of the groups in several statements, and each has a snapshot of its own. If rules have
-- changed in between, the claim keeps neither the old ones nor the new ones, so it fails and is repeated. A later
-- snapshot shows all that an earlier one has shown: if the last one shows the known version, each of them has.
CREATE OR REPLACE FUNCTION errand.claim_limited(
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
    IF (SELECT v.version FROM errand.rules_version v) <> known_version THEN
        PERFORM errand.rules_changed();
    END IF;
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
