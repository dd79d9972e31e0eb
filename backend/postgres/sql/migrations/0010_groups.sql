-- The group of a job: what it shares with other jobs of its queue. Names are compared byte by byte, as Go does. No
-- column has a default, so the server writes no row for them. jobs_archive gets the same columns in the same order.
ALTER TABLE errand.jobs
    ADD COLUMN job_group text COLLATE "C", -- NULL for none
    ADD COLUMN ordered   boolean;          -- true if the jobs of the group run one at a time, in order; else NULL
ALTER TABLE errand.jobs_archive
    ADD COLUMN job_group text COLLATE "C",
    ADD COLUMN ordered   boolean;

-- For claims that go from group to group. Jobs without a group are not in it and cost nothing more.
CREATE INDEX jobs_group_idx ON errand.jobs (queue, job_group, priority, scheduled_at, id)
    WHERE job_group IS NOT NULL AND ordered IS NULL AND status = 'pending';

-- insert_keyed and enqueue take a group, too. A function with other parameters is another function.
DROP FUNCTION errand.insert_keyed, errand.enqueue;

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
    ordered      boolean[] DEFAULT NULL
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
            t.payload, t.priority, t.delay, t.due, t.most, t.job_key, t.headers, t.job_group, t.ordered,
            t.ord
        FROM unnest(queues, kinds, string_to_array(payloads, E'\x1e'), priorities, delays, dues, insert_keyed.max_attempts, job_keys,
            insert_keyed.headers, job_groups, insert_keyed.ordered)
            WITH ORDINALITY AS t (queue, kind, payload, priority, delay, due, most, job_key, headers, job_group, ordered, ord)
    ), written AS (
        INSERT INTO errand.jobs AS j (id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered)
        SELECT
            i.id, i.queue, i.kind, i.payload::jsonb, coalesce(i.priority, 0),
            coalesce(i.due, started + coalesce(i.delay, 0) * interval '1 microsecond'),
            coalesce(i.most, 5), i.job_key, i.headers::jsonb, i.job_group, i.ordered
        FROM input i
        ORDER BY i.job_key COLLATE "C", i.queue COLLATE "C", i.ord
        ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running') DO NOTHING
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
            WHERE live.queue = r.queue AND live.job_key = r.job_key AND live.status IN ('pending', 'running')
        )) END
    FROM result r
    ORDER BY r.ord;
END
$$;
REVOKE ALL ON FUNCTION errand.insert_keyed FROM PUBLIC;

-- enqueue does for triggers and other languages what Enqueue does in Go, by the same rules. It returns the id of the
-- job, or of the live job that already has the key. It is part of the caller's transaction. A bad argument is an error
-- that names the argument.
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
    job_group    text        DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    name_rule CONSTANT text := '^[\x20-\x7e]{1,200}$';
    problem text := errand.payload_problem(payload);
    id bigint;
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
    END IF;
    LOOP
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
        WHERE live.queue = queue AND live.job_key = job_key AND live.status IN ('pending', 'running');
        IF id IS NOT NULL THEN
            RETURN id;
        END IF;
    END LOOP;
    PERFORM pg_notify('errand', queue) WHERE EXISTS (
        SELECT FROM errand.sleepers s WHERE s.queue = queue AND s.since > statement_timestamp() - interval '1 minute');
    RETURN id;
END
$$;
