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

-- enqueue does for triggers and other languages what Enqueue does in Go, by the same rules. It returns the id of the
-- job, or of the live job that already has the key. It is part of the caller's transaction. A bad argument is an error
-- that names the argument.
--
--     SELECT errand.enqueue('emails', 'email.welcome', '{"user_id": 42}', delay => '5 minutes', job_key => 'welcome-42');
CREATE OR REPLACE FUNCTION errand.enqueue(
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
    ELSIF jsonb_typeof(headers) <> 'object' OR jsonb_path_exists(headers, 'strict $.* ? (@.type() != "string")', '{}', true) THEN
        RAISE EXCEPTION 'errand: invalid headers: an object of strings' USING ERRCODE = 'invalid_parameter_value';
    ELSIF headers IS NOT NULL AND 65536 < (SELECT sum(octet_length(h.key) + octet_length(h.value)) FROM jsonb_each_text(headers) AS h) THEN
        RAISE EXCEPTION 'errand: invalid headers: at most 65536 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    LOOP
        INSERT INTO errand.jobs AS j (queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers)
        VALUES (
            queue, kind, coalesce(payload, 'null'), coalesce(priority, 0),
            -- The number is drawn first, because the INSERT may wait for the key: see ration_marks.go.
            coalesce(scheduled_at, CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END
                + coalesce(delay, interval '0')),
            coalesce(max_attempts, 5), job_key, headers)
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
