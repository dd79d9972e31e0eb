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
    headers      jsonb       DEFAULT NULL  -- an object whose values are strings
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    name_rule CONSTANT text := '^[\x20-\x7e]{1,200}$';
    id bigint;
BEGIN
    IF queue IS NULL OR queue !~ name_rule THEN
        RAISE EXCEPTION 'errand: invalid queue: 1 to 200 printable ASCII bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF kind IS NULL OR kind !~ name_rule THEN
        RAISE EXCEPTION 'errand: invalid kind: 1 to 200 printable ASCII bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(payload::text) > 1048576 THEN
        RAISE EXCEPTION 'errand: invalid payload: % bytes: at most 1048576', octet_length(payload::text) USING ERRCODE = 'invalid_parameter_value';
    ELSIF delay < interval '0' OR delay > interval '100 years' THEN
        RAISE EXCEPTION 'errand: invalid delay: %: between 0 and 100 years', delay USING ERRCODE = 'invalid_parameter_value';
    ELSIF delay IS NOT NULL AND scheduled_at IS NOT NULL THEN
        RAISE EXCEPTION 'errand: invalid delay: set one of delay and scheduled_at' USING ERRCODE = 'invalid_parameter_value';
    ELSIF scheduled_at NOT BETWEEN '1970-01-01Z' AND '9999-12-31Z' THEN
        RAISE EXCEPTION 'errand: invalid scheduled_at: %: between the years 1970 and 9999', scheduled_at USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_attempts NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'errand: invalid max_attempts: %: between 1 and 1000000', max_attempts USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(job_key) NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION 'errand: invalid job_key: 1 to 500 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(headers::text) > 65536 OR jsonb_typeof(headers) <> 'object' OR jsonb_path_exists(headers, '$.* ? (@.type() != "string")') THEN
        RAISE EXCEPTION 'errand: invalid headers: an object of strings, at most 65536 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    LOOP
        INSERT INTO errand.jobs AS j (queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers)
        VALUES (
            queue, kind, coalesce(payload, 'null'), coalesce(priority, 0),
            coalesce(scheduled_at, statement_timestamp() + coalesce(delay, interval '0')), coalesce(max_attempts, 5), job_key, headers)
        ON CONFLICT DO NOTHING -- only jobs_key_idx can conflict: the id is new
        RETURNING j.id INTO id;
        EXIT WHEN id IS NOT NULL;
        SELECT live.id INTO id FROM errand.jobs AS live
        WHERE live.queue = queue AND live.job_key = job_key AND live.status IN ('pending', 'running');
        IF id IS NOT NULL THEN
            RETURN id;
        END IF;
    END LOOP;
    PERFORM pg_notify('errand', queue) WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = queue);
    RETURN id;
END
$$;
