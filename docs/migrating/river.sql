-- Moves River's pending jobs (table river_job, schema version 6 or later) into errand.jobs, while River's clients go
-- on working.
--
--     psql "$DATABASE_URL" -1 -f river.sql          or, in Go, db.ExecContext(ctx, script)
--
-- Run it when everything is enqueued through errand, and again until nothing is left that should go. The move is one
-- statement: a row is deleted here and written there, or neither. Nothing is begun or committed, so it may stand in a
-- transaction of yours and be rolled back after a look at the report. What a worker has locked is passed over. To go
-- in steps, put LIMIT 10000 before FOR UPDATE. River's table is found by search_path.
--
--   available, scheduled, retryable    move
--   running                            stay: River's workers finish them, and its rescuer frees what a crash has left
--   pending                            stay: River does not run them until somebody makes them available
--   cancelled, completed, discarded    stay: they are history
--
-- kind, queue, scheduled_at, attempt, max_attempts and created_at keep their values, and args become the payload.
-- Both sides count starts without snoozes, so a job has as many left as before. Priorities 1 (River's default) to 4
-- become 0 (errand's) to 3: lower is first in both. last_error is the last of errors. Headers are the metadata, what
-- is not a string as its JSON text, with river.id, and river.tags joined by commas.
--
-- A unique_key that River enforces in the job's state becomes the job_key 'river:' || hex: it keeps another River job
-- of that key out of errand until this one has ended. New jobs have the keys that your code gives them, which this
-- one does not block; and River accepts its key again as soon as the row has left.

-- A table of one row, which is inlined into the statement; NULL if metadata are not an object.
CREATE OR REPLACE FUNCTION pg_temp.river_headers(j river_job) RETURNS TABLE (headers jsonb) LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN jsonb_typeof(j.metadata) = 'object' THEN
        coalesce((
            SELECT jsonb_object_agg(m.key, coalesce(m.value, 'null'))
            FROM jsonb_each_text(CASE WHEN jsonb_typeof(j.metadata) = 'object' THEN j.metadata ELSE '{}' END) AS m
        ), '{}')
        || jsonb_build_object('river.id', j.id::text)
        || CASE WHEN j.tags = '{}' THEN '{}' ELSE jsonb_build_object('river.tags', array_to_string(j.tags, ',')) END
    END
$$;

CREATE OR REPLACE FUNCTION pg_temp.river_key(j river_job) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN river_job_state_in_bitmask(j.unique_states, j.state) THEN 'river:' || encode(j.unique_key, 'hex')
    END
$$;

-- The rows that may move are locked and deleted by ctid: nothing is joined, so the plan is fast whatever the
-- statistics, and a row that changed meanwhile is left for the next run. If a key is taken at this very moment the
-- statement fails as a whole: run it again.
WITH seen AS MATERIALIZED (
    SELECT r.ctid AS tid, CASE
        WHEN r.state IN ('running', 'pending') THEN r.state::text
        WHEN r.kind !~ '^[\x20-\x7e]{1,200}$' THEN 'kind is not 1 to 200 printable ASCII bytes'
        WHEN r.queue !~ '^[\x20-\x7e]{1,200}$' THEN 'queue is not 1 to 200 printable ASCII bytes'
        WHEN octet_length(r.args::text) > 1048576 THEN 'args are longer than 1 MiB'
        WHEN jsonb_typeof(r.metadata) <> 'object' THEN 'metadata are not an object'
        WHEN octet_length(h.headers::text) > 65536 THEN 'metadata are longer than 64 KiB'
        WHEN r.scheduled_at NOT BETWEEN '1970-01-01Z' AND '9999-12-31Z'
            THEN 'scheduled_at is not between the years 1970 and 9999'
        WHEN r.unique_key IS NOT NULL AND EXISTS (
            SELECT FROM errand.jobs AS e
            WHERE e.queue = r.queue AND e.job_key = pg_temp.river_key(r) AND e.status IN ('pending', 'running')
        ) THEN 'a live job in errand has its unique_key: run this again when that has ended'
    END AS stays
    FROM river_job AS r CROSS JOIN LATERAL pg_temp.river_headers(r) AS h
    WHERE r.state IN ('available', 'scheduled', 'retryable', 'running', 'pending')
), taken AS (
    DELETE FROM river_job AS r
    WHERE r.ctid = ANY (ARRAY(
        SELECT c.ctid
        FROM river_job AS c
        WHERE c.ctid = ANY (ARRAY(SELECT tid FROM seen WHERE stays IS NULL))
            AND c.state::text IN ('available', 'scheduled', 'retryable') -- cast, so that no index tempts the planner
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING r.*, r AS job
), moved AS (
    INSERT INTO errand.jobs (
        queue, kind, payload, priority, scheduled_at, attempts, max_attempts, last_error, created_at, job_key, headers
    )
    SELECT
        queue, kind, args, priority - 1, scheduled_at, attempt, max_attempts,
        left(errors[array_upper(errors, 1)] ->> 'error', 8192), created_at, pg_temp.river_key(job), h.headers
    FROM taken CROSS JOIN LATERAL pg_temp.river_headers(job) AS h
    ORDER BY id
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

DROP FUNCTION pg_temp.river_headers, pg_temp.river_key;
