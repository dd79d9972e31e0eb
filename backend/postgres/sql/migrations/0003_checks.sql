-- The table refuses what the enqueueing role must not write: long names, infinite times, attempts without end, and
-- sizes that no claim can transfer. The statements that read other odd values cope with them. This is one short check,
-- because the server parses a table's checks again for each statement: a check for every column made an enqueue of one
-- job a fifth slower. The bound of a payload is that of its jsonb, which takes up to six times the bytes of its text;
-- MaxPayload is lower.

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

-- NOT VALID: the next step checks the existing rows, without locking the table meanwhile.
ALTER TABLE errand.jobs
    DROP CONSTRAINT IF EXISTS jobs_queue_check,
    DROP CONSTRAINT IF EXISTS jobs_kind_check,
    ADD CONSTRAINT jobs_values_check CHECK (
        octet_length(queue) <= 200
        AND octet_length(kind) <= 200
        AND isfinite(scheduled_at)
        AND max_attempts <= 1000000
        AND greatest(pg_column_size(payload), pg_column_size(headers)) <= 67108864
    ) NOT VALID;
