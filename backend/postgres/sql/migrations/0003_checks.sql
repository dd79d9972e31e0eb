-- The table refuses what the enqueueing role must not write: long names, infinite times, attempts without end, and
-- sizes that no claim can transfer. The statements that read other odd values cope with them. The bound of a payload is
-- that of its jsonb, which takes up to six times the bytes of its text; MaxPayload is lower.
-- Triggers check this, and not a CHECK. The server parses a table's CHECKs again for each statement that writes, even
-- if none of the columns changes, and that made a claim or a settle of one job a twelfth slower.

-- Brings rows that exceed the bounds within them, because later no change of such a row would be possible. The next step
-- does so again, for rows that are written before the check is there, and drops this function. A job whose payload or
-- headers are too large moves to jobs_archive, as a dead job with a reason if it had not ended.
CREATE FUNCTION errand.mend_rows() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    archived bigint;
BEGIN
    WITH long AS (
        DELETE FROM errand.jobs
        WHERE greatest(pg_column_size(payload), pg_column_size(headers)) > 67108864
        RETURNING *
    )
    INSERT INTO errand.jobs_archive (
        id, queue, payload, status, priority, scheduled_at, locked_at, locked_by, attempts, max_attempts, last_error,
        created_at, updated_at, kind, headers, job_key, fence, locked_until
    )
    SELECT
        id, queue, payload, CASE WHEN status < 'completed' THEN 'dead' ELSE status END, priority, scheduled_at,
        locked_at, locked_by, attempts, max_attempts,
        CASE WHEN status < 'completed'
            THEN format('errand: archived while %s: payload or headers take more than 64 MiB', status)
            ELSE last_error END,
        created_at, updated_at, kind, headers, job_key, fence, locked_until
    FROM long;
    GET DIAGNOSTICS archived = ROW_COUNT;
    IF archived > 0 THEN
        RAISE WARNING 'errand: % jobs whose payload or headers take more than 64 MiB have moved to jobs_archive', archived;
    END IF;

    UPDATE errand.jobs
    SET scheduled_at = least(greatest(scheduled_at, '1970-01-01Z'), '10000-01-01Z'),
        created_at = least(greatest(created_at, '1970-01-01Z'), '10000-01-01Z'),
        updated_at = least(greatest(updated_at, '1970-01-01Z'), '10000-01-01Z'),
        attempts = least(greatest(attempts, 0), 1000000000),
        max_attempts = least(greatest(max_attempts, 1), 1000000),
        job_key = nullif(job_key, ''),
        headers = CASE WHEN jsonb_typeof(headers) = 'object' THEN (
            SELECT jsonb_object_agg(h.key, h.value) FROM jsonb_each(headers) AS h WHERE jsonb_typeof(h.value) = 'string'
        ) END
    WHERE scheduled_at NOT BETWEEN '1970-01-01Z' AND '10000-01-01Z'
        OR created_at NOT BETWEEN '1970-01-01Z' AND '10000-01-01Z'
        OR updated_at NOT BETWEEN '1970-01-01Z' AND '10000-01-01Z'
        OR attempts NOT BETWEEN 0 AND 2000000000
        OR max_attempts NOT BETWEEN 1 AND 1000000
        OR job_key = ''
        OR jsonb_typeof(headers) <> 'object'
        OR jsonb_path_exists(headers, 'strict $.* ? (@.type() != "string")', '{}', true);
END
$$;
SELECT errand.mend_rows();

ALTER TABLE errand.jobs
    DROP CONSTRAINT IF EXISTS jobs_queue_check,
    DROP CONSTRAINT IF EXISTS jobs_kind_check;

CREATE FUNCTION errand.refuse_values() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'new row for relation "jobs" violates check constraint "jobs_values_check"' USING
        ERRCODE = 'check_violation', TABLE = 'jobs', CONSTRAINT = 'jobs_values_check',
        HINT = 'queue and kind: at most 200 bytes; scheduled_at: finite; max_attempts: at most 1000000; '
            || 'payload and headers: at most 64 MiB in the table';
END
$$;

CREATE TRIGGER jobs_values_check_insert AFTER INSERT ON errand.jobs FOR EACH ROW WHEN (
    octet_length(NEW.queue) > 200
    OR octet_length(NEW.kind) > 200
    OR NOT isfinite(NEW.scheduled_at)
    OR NEW.max_attempts > 1000000
    OR greatest(pg_column_size(NEW.payload), pg_column_size(NEW.headers)) > 67108864
) EXECUTE FUNCTION errand.refuse_values();

CREATE TRIGGER jobs_values_check_update AFTER UPDATE OF queue, kind, scheduled_at, max_attempts, payload, headers
ON errand.jobs FOR EACH ROW WHEN (
    octet_length(NEW.queue) > 200
    OR octet_length(NEW.kind) > 200
    OR NOT isfinite(NEW.scheduled_at)
    OR NEW.max_attempts > 1000000
    OR greatest(pg_column_size(NEW.payload), pg_column_size(NEW.headers)) > 67108864
) EXECUTE FUNCTION errand.refuse_values();
