-- What the table refuses, and the functions that write jobs.

-- The table refuses payloads and headers that no claim can transfer. The bound is that of their jsonb, which takes up to
-- six times the bytes of its text; MaxPayload is lower. A short condition, because the server parses it again for each
-- statement that inserts: it takes a tenth of its work for one job. insert_replacing checks what it updates. A trigger
-- for updates would make the server read each row again that a claim or an outcome changes, whatever its columns.
CREATE FUNCTION errand.refuse_size() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'new row for relation "jobs" violates check constraint "jobs_values_check"' USING
        ERRCODE = 'check_violation', TABLE = 'jobs', CONSTRAINT = 'jobs_values_check',
        HINT = 'payload and headers: at most 64 MiB in the table';
END
$$;

CREATE TRIGGER jobs_values_check_insert AFTER INSERT ON errand.jobs FOR EACH ROW
WHEN (greatest(pg_column_size(NEW.payload), pg_column_size(NEW.headers)) > 67108864)
EXECUTE FUNCTION errand.refuse_size();

-- payload_problem returns why Go's Enqueue would refuse a payload, or NULL. Go checks the payload's text and this
-- checks the jsonb made of it, so they differ where one value can be written in several ways: 1e4000 or 4001 digits.
CREATE FUNCTION errand.payload_problem(payload jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
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
$$;

-- insert_keyed writes the jobs of enqueue.sql, some of which have keys. It draws their ids in the order of the batch
-- and writes them in the order of their keys: two batches that wrote the same keys in different orders would deadlock.
-- So it sets the ids, which no other statement may: ids set ahead of the sequence would make later jobs fail. It runs
-- with its owner's rights; docs/roles.sql grants it to the roles that may call it. Its parameters are those of
-- enqueue.sql. live_id is the id of the live job that has the key: the one that this batch has written, or one that was
-- there before. It is NULL if another statement has written that job after this one's snapshot.
-- Index: jobs_key_idx.
CREATE FUNCTION errand.insert_keyed(
    queues       text[],
    kinds        text[],
    payloads     text,
    priorities   integer[],
    delays       bigint[],
    dues         timestamptz[],
    max_attempts integer[],
    job_keys     text[],
    headers      text[],
    job_groups   text[] DEFAULT NULL,
    ordered      boolean[] DEFAULT NULL,
    costs        integer[] DEFAULT NULL
) RETURNS TABLE (id bigint, duplicate boolean, live_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- All jobs are due at the same time, so they keep their order. The transaction draws its number before the clock
    -- is read: rationed claims (ration_marks.go) need the two to be close, and sorting a large batch takes time.
    started CONSTANT timestamptz := CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END;
BEGIN
    RETURN QUERY
    WITH input AS MATERIALIZED (
        SELECT
            nextval('errand.jobs_id_seq') AS id, coalesce(t.queue, queues[1]) AS queue, coalesce(t.kind, kinds[1]) AS kind,
            t.payload, t.priority, t.delay, t.due, t.most, t.job_key, t.headers, t.job_group, t.ordered, t.cost,
            t.ord
        FROM unnest(queues, kinds, string_to_array(payloads, E'\x1e'), priorities, delays, dues, insert_keyed.max_attempts, job_keys,
            insert_keyed.headers, job_groups, insert_keyed.ordered, costs)
            WITH ORDINALITY AS t (queue, kind, payload, priority, delay, due, most, job_key, headers, job_group, ordered, cost,
                ord)
    ), written AS (
        INSERT INTO errand.jobs AS j (
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
            SELECT live.id FROM errand.jobs live
            WHERE live.queue = r.queue AND live.job_key = r.job_key AND live.status IN ('pending', 'running', 'held')
        )) END
    FROM result r
    ORDER BY r.ord;
END
$$;
REVOKE ALL ON FUNCTION errand.insert_keyed FROM PUBLIC;

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
    max_delays   bigint[],
    costs        integer[] DEFAULT NULL
) RETURNS TABLE (id bigint, duplicate boolean, replaced boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
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
                nextval('errand.jobs_id_seq') AS id, coalesce(t.queue, queues[1]) AS queue, coalesce(t.kind, kinds[1]) AS kind,
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
                INSERT INTO errand.jobs AS j (
                    id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered, cost)
                VALUES (
                    job.id, job.queue, job.kind, job.payload::jsonb, job.priority, job.due, job.most, job.job_key,
                    job.headers::jsonb, job.job_group, job.ordered, job.cost)
                ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held') DO NOTHING
                RETURNING j.id INTO live_id;
                EXIT WHEN FOUND;
                SELECT j.id INTO live_id FROM errand.jobs j
                WHERE j.queue = job.queue AND j.job_key = job.job_key AND j.status IN ('pending', 'running', 'held');
                EXIT WHEN FOUND;
                CONTINUE; -- that job has just ended
            END IF;
            INSERT INTO errand.jobs AS j (
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

-- enqueue does for triggers and other languages what Enqueue does in Go, by the same rules. It returns the id of the
-- job, or of the live job that already has the key. It is part of the caller's transaction. A bad argument is an error
-- that names the argument. With on_duplicate => 'replace' the job takes the live job's place, by the rules of
-- insert_replacing.
--
--     SELECT errand.enqueue('emails', 'email.welcome', '{"user_id": 42}', delay => '5 minutes', job_key => 'welcome-42');
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
    max_delay    interval    DEFAULT NULL,   -- needs on_duplicate => 'replace' and a delay
    ordered      boolean     DEFAULT false,  -- needs a job_group, and no priority
    cost         integer     DEFAULT 1       -- what it takes of a rate; 0 for 1
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
            SELECT r.id FROM errand.insert_replacing(
                ARRAY[queue], ARRAY[kind], coalesce(payload, 'null')::text, ARRAY[priority],
                ARRAY[(extract(epoch FROM called_at + delay - called_at) * 1000000)::bigint], ARRAY[scheduled_at], ARRAY[max_attempts],
                ARRAY[job_key], ARRAY[headers::text], ARRAY[job_group], ARRAY[ordered], ARRAY[true],
                ARRAY[(extract(epoch FROM called_at + max_delay - called_at) * 1000000)::bigint], ARRAY[cost]) AS r);
    END IF;
    WHILE id IS NULL LOOP
        INSERT INTO errand.jobs AS j (
            queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered, cost)
        VALUES (
            queue, kind, coalesce(payload, 'null'), coalesce(priority, 0),
            -- The number is drawn first, because the INSERT may wait for the key: see ration_marks.go.
            coalesce(scheduled_at, CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END
                + coalesce(delay, interval '0')),
            coalesce(max_attempts, 5), job_key, headers, job_group, ordered, cost)
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
