-- Moves gue's jobs (table gue_jobs of gue v5 and v6) into errand.jobs, while gue's workers go on working.
--
--     psql "$DATABASE_URL" -1 -f gue.sql            or, in Go, db.ExecContext(ctx, script)
--
-- Run it when everything is enqueued through errand, and again until nothing is left that should go. The move is one
-- statement: a row is deleted here and written there, or neither. Nothing is begun or committed, so it may stand in a
-- transaction of yours and be rolled back after a look at the report. A gue worker keeps its job's row locked while
-- it runs, and what is locked is passed over. To go in steps, put LIMIT 10000 before FOR UPDATE. gue's table is found
-- by search_path.
--
-- job_type becomes the kind, run_at scheduled_at, error_count the attempts; priority (lower is first in both),
-- last_error and created_at keep their values; queue '' becomes default; the header gue.id is the job_id.
--
-- gue tries until the handler or the back-off gives up, and keeps no limit with the job. errand needs one: 25
-- attempts more, which is most of a day of its back-off. Then the job is dead: kept, listed, and good for another
-- life. Change more_attempts for another number.
--
-- args are bytes, and a payload is JSON. Valid JSON moves as it is, and no bytes at all as null. Everything else
-- stays and is reported, unless its job_type is listed in binary_types, as '{thumbnail,import}': then all args of
-- that type move as base64 strings, which a queue.Kind[[]byte] reads back.

CREATE OR REPLACE FUNCTION pg_temp.gue_payload(job_type text, args bytea) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    binary_types CONSTANT text[] := '{}';
BEGIN
    IF job_type = ANY (binary_types) THEN
        RETURN to_jsonb(translate(encode(args, 'base64'), E'\n', ''));
    ELSIF args = '' THEN
        RETURN 'null';
    END IF;
    RETURN convert_from(args, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN -- not UTF-8, not JSON, \u0000, nested too deeply
    RETURN NULL;
END
$$;

-- The rows that may move are locked and deleted by ctid: nothing is joined, so the plan is fast whatever the
-- statistics, and a row that changed meanwhile is left for the next run.
WITH seen AS MATERIALIZED (
    SELECT g.ctid AS tid, CASE
        WHEN g.job_type !~ '^[\x20-\x7e]{1,200}$' THEN 'job_type is not 1 to 200 printable ASCII bytes'
        WHEN g.queue !~ '^[\x20-\x7e]{0,200}$' THEN 'queue is not 1 to 200 printable ASCII bytes'
        WHEN p.payload IS NULL THEN 'args are not JSON'
        WHEN octet_length(p.payload::text) > 1048576 THEN 'args are longer than 1 MiB'
        WHEN g.run_at NOT BETWEEN '1970-01-01Z' AND '9999-12-31Z' THEN 'run_at is not between the years 1970 and 9999'
    END AS stays
    FROM gue_jobs AS g CROSS JOIN LATERAL pg_temp.gue_payload(g.job_type, g.args) AS p (payload)
), taken AS (
    DELETE FROM gue_jobs AS g
    WHERE g.ctid = ANY (ARRAY(
        SELECT c.ctid FROM gue_jobs AS c WHERE c.ctid = ANY (ARRAY(SELECT tid FROM seen WHERE stays IS NULL))
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING g.*
), settings AS (
    SELECT 25 AS more_attempts
), moved AS (
    INSERT INTO errand.jobs (
        queue, kind, payload, priority, scheduled_at, attempts, max_attempts, last_error, created_at, headers
    )
    SELECT
        coalesce(nullif(queue, ''), 'default'), job_type, pg_temp.gue_payload(job_type, args), priority, run_at,
        error_count, error_count + more_attempts, left(last_error, 8192), created_at,
        jsonb_build_object('gue.id', job_id)
    FROM taken CROSS JOIN settings
    ORDER BY job_id
    RETURNING queue
), woken AS (
    SELECT pg_notify('errand', m.queue)
    FROM (SELECT DISTINCT queue FROM moved) AS m
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = m.queue)
)
SELECT 'moved' AS outcome, count(*) AS jobs, (SELECT count(*) FROM woken) AS queues_woken FROM moved
UNION ALL
SELECT 'left: ' || stays, count(*), NULL FROM seen WHERE stays IS NOT NULL GROUP BY stays
UNION ALL
SELECT 'left: a worker has it, or this run did not get to it', count(*) - (SELECT count(*) FROM taken), NULL
FROM seen WHERE stays IS NULL
ORDER BY outcome DESC;

DROP FUNCTION pg_temp.gue_payload;
