-- insert_replacing writes the jobs of enqueue_replacing.sql, some of which replace the live job that has their key. The
-- effect is that of writing the jobs one by one, in the order of the batch. It draws their ids in that order, and writes
-- and locks the jobs in the order of their keys, as insert_keyed does: otherwise two calls could deadlock. Settle locks
-- jobs in the order of their ids, but gives up before the server takes its wait for a deadlock. The parameters are those
-- of enqueue_replacing.sql, and the rights those of insert_keyed. It returns the jobs in the order of the batch.
-- A pending or held job is updated. It keeps its status, and created_at, from which max_delay counts, unless it has been
-- tried before. A job that is not put off keeps its due time, so that it starts however often it is replaced. A running
-- job gives its key up; nothing else of it changes, not even updated_at, which tells when the guide's statements have
-- claimed a job.
-- Index: jobs_key_idx.
CREATE FUNCTION errand.insert_replacing(
    queues       text[],
    kinds        text[],
    payloads     text,
    priorities   integer[],
    delays       bigint[],
    dues         timestamptz[],
    max_attempts integer[],
    job_keys     text[],
    headers      text[],
    job_groups   text[],
    ordered      boolean[],
    replaces     boolean[],
    max_delays   bigint[]
) RETURNS TABLE (id bigint, duplicate boolean, replaced boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- See insert_keyed.
    started    CONSTANT timestamptz := CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END;
    size       CONSTANT integer := cardinality(string_to_array(payloads, E'\x1e'));
    job        record;
    live_id    bigint; -- of the job that has the key, this one included
    ids        bigint[] := array_fill(0::bigint, ARRAY[size]);
    duplicates boolean[] := array_fill(false, ARRAY[size]);
    replaced   boolean[] := array_fill(false, ARRAY[size]);
BEGIN
    FOR job IN
        WITH input AS MATERIALIZED (
            SELECT
                nextval('errand.jobs_id_seq') AS id, coalesce(t.queue, queues[1]) AS queue, coalesce(t.kind, kinds[1]) AS kind,
                t.payload, coalesce(t.priority, 0) AS priority,
                coalesce(t.due, started + coalesce(t.delay, 0) * interval '1 microsecond') AS due, t.due IS NOT NULL AS fixed,
                coalesce(t.most, 5) AS most, t.job_key, t.headers, t.job_group, t.ordered, coalesce(t.replaces, false) AS replaces,
                t.max_delay * interval '1 microsecond' AS max_delay, t.ord
            FROM unnest(
                queues, kinds, string_to_array(payloads, E'\x1e'), priorities, delays, dues,
                insert_replacing.max_attempts, job_keys, insert_replacing.headers, job_groups, insert_replacing.ordered,
                replaces, max_delays)
                WITH ORDINALITY AS t (
                    queue, kind, payload, priority, delay, due, most, job_key, headers, job_group, ordered, replaces,
                    max_delay, ord)
        )
        SELECT * FROM input i ORDER BY i.job_key COLLATE "C", i.queue COLLATE "C", i.ord
    LOOP
        LOOP
            IF NOT job.replaces THEN
                INSERT INTO errand.jobs AS j (
                    id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered)
                VALUES (
                    job.id, job.queue, job.kind, job.payload::jsonb, job.priority, job.due, job.most, job.job_key,
                    job.headers::jsonb, job.job_group, job.ordered)
                ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO NOTHING
                RETURNING j.id INTO live_id;
                EXIT WHEN FOUND;
                SELECT j.id INTO live_id FROM errand.jobs j
                WHERE j.queue = job.queue AND j.job_key = job.job_key AND j.status IN ('pending', 'running', 'held');
                EXIT WHEN FOUND;
                CONTINUE; -- that job has just ended
            END IF;
            INSERT INTO errand.jobs AS j (
                id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered)
            VALUES (
                job.id, job.queue, job.kind, job.payload::jsonb, job.priority, job.due, job.most, job.job_key,
                job.headers::jsonb, job.job_group, job.ordered)
            ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO UPDATE
            SET
                kind = excluded.kind, payload = excluded.payload, priority = excluded.priority,
                max_attempts = excluded.max_attempts, headers = excluded.headers,
                job_group = excluded.job_group, ordered = excluded.ordered,
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
            RETURNING j.id INTO live_id;
            EXIT WHEN FOUND;
            UPDATE errand.jobs j SET job_key = NULL
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
REVOKE ALL ON FUNCTION errand.insert_replacing FROM PUBLIC;

-- enqueue may replace, too. A function with other parameters is another function.
DROP FUNCTION errand.enqueue;

-- enqueue does for triggers and other languages what Enqueue does in Go, by the same rules. It returns the id of the
-- job, or of the live job that already has the key. It is part of the caller's transaction. A bad argument is an error
-- that names the argument.
--
--     SELECT errand.enqueue('emails', 'email.welcome', '{"user_id": 42}', delay => '5 minutes', job_key => 'welcome-42');
-- With on_duplicate => 'replace' the job takes the live job's place, by the rules of insert_replacing.
CREATE FUNCTION errand.enqueue(
    queue        text,
    kind         text,
    payload      jsonb       DEFAULT 'null',
    priority     integer     DEFAULT 0,
    delay        interval    DEFAULT NULL, -- at most one of delay and scheduled_at
    scheduled_at timestamptz DEFAULT NULL,
    max_attempts integer     DEFAULT 5,
    job_key      text        DEFAULT NULL,
    headers      jsonb       DEFAULT NULL, -- an object whose values are strings
    job_group    text        DEFAULT NULL,
    on_duplicate text        DEFAULT 'keep', -- or 'replace', which needs a job_key
    max_delay    interval    DEFAULT NULL    -- needs on_duplicate => 'replace' and a delay
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    name_rule CONSTANT text := '^[\x20-\x7e]{1,200}$';
    problem text := errand.payload_problem(payload);
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
    ELSIF on_duplicate NOT IN ('keep', 'replace') THEN
        RAISE EXCEPTION 'errand: invalid on_duplicate: keep or replace' USING ERRCODE = 'invalid_parameter_value';
    ELSIF on_duplicate = 'replace' AND job_key IS NULL THEN
        RAISE EXCEPTION 'errand: invalid on_duplicate: replace without a job_key' USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_delay IS NOT NULL AND (on_duplicate IS DISTINCT FROM 'replace' OR delay IS NULL) THEN
        RAISE EXCEPTION 'errand: invalid max_delay: without a delay and on_duplicate => ''replace''' USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_delay < delay OR max_delay > interval '36500 days' THEN
        RAISE EXCEPTION 'errand: invalid max_delay: %: between the delay and 36500 days', max_delay USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF on_duplicate = 'replace' THEN
        id := (
            SELECT r.id FROM errand.insert_replacing(
                ARRAY[queue], ARRAY[kind], coalesce(payload, 'null')::text, ARRAY[priority],
                ARRAY[(extract(epoch FROM called_at + delay - called_at) * 1000000)::bigint], ARRAY[scheduled_at], ARRAY[max_attempts],
                ARRAY[job_key], ARRAY[headers::text], ARRAY[job_group], NULL, ARRAY[true],
                ARRAY[(extract(epoch FROM called_at + max_delay - called_at) * 1000000)::bigint]) AS r);
    END IF;
    WHILE id IS NULL LOOP
        INSERT INTO errand.jobs AS j (queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group)
        VALUES (
            queue, kind, coalesce(payload, 'null'), coalesce(priority, 0),
            -- The number is drawn first, because the INSERT may wait for the key: see ration_marks.go.
            coalesce(scheduled_at, CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END
                + coalesce(delay, interval '0')),
            coalesce(max_attempts, 5), job_key, headers, job_group)
        ON CONFLICT DO NOTHING -- only jobs_key_idx can conflict: the id is new
        RETURNING j.id INTO id;
        EXIT WHEN id IS NOT NULL;
        SELECT live.id INTO id FROM errand.jobs AS live
        WHERE live.queue = queue AND live.job_key = job_key AND live.status IN ('pending', 'running', 'held');
        IF id IS NOT NULL THEN
            RETURN id;
        END IF;
    END LOOP;
    PERFORM pg_notify('errand', queue) WHERE EXISTS (
        SELECT FROM errand.sleepers s WHERE s.queue = queue AND s.since > statement_timestamp() - interval '1 minute');
    RETURN id;
END
$$;
