-- What the table does not hold, whoever writes to it: times that Go cannot read, counts and sizes beyond what Enqueue accepts,
-- headers that are not strings. Every claim and every settling checks them, too, so none reads a payload or is slow.
-- A payload's bound is that of its jsonb, which takes up to six times its text; MaxPayload is lower, and Enqueue's own.

-- What is beyond the bounds already is brought within them: afterwards no change of such a row would be possible.
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

-- NOT VALID: the rows that are there are looked at by the next step, which does not lock the table meanwhile.
ALTER TABLE errand.jobs
    ADD CONSTRAINT jobs_times_check CHECK (
        scheduled_at BETWEEN '1970-01-01Z' AND '10000-01-01Z'
        AND created_at BETWEEN '1970-01-01Z' AND '10000-01-01Z'
        AND updated_at BETWEEN '1970-01-01Z' AND '10000-01-01Z') NOT VALID,
    ADD CONSTRAINT jobs_attempts_check CHECK (
        attempts BETWEEN 0 AND 2000000000 AND max_attempts BETWEEN 1 AND 1000000) NOT VALID,
    ADD CONSTRAINT jobs_payload_check CHECK (pg_column_size(payload) <= 67108864) NOT VALID,
    ADD CONSTRAINT jobs_headers_check CHECK (
        headers IS NULL
        OR pg_column_size(headers) <= 1048576
            AND jsonb_typeof(headers) = 'object'
            AND NOT jsonb_path_exists(headers, 'strict $.* ? (@.type() != "string")', '{}', true)) NOT VALID,
    ADD CONSTRAINT jobs_key_check CHECK (octet_length(job_key) BETWEEN 1 AND 500) NOT VALID;
