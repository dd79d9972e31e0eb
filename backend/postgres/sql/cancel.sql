-- Cancels the jobs with the ids $1, if they have queue $2, kind $3, group $4 and key $5, each NULL for any, and one of
-- the statuses $6, of which pending, held and running count. Of a running job it only notes that it is to be cancelled
-- and, if $8, notifies its worker. Returns the ids that it has found, each with true if it has changed the job and with
-- false if another transaction has locked it. For one job at a time the program removes SKIP LOCKED: the statement then
-- waits. $7 means nothing here.
-- A notification is U+0001, the worker, U+0001, and the ids with commas between them, or no ids if they are too many.
-- Index: jobs_pkey.
WITH found AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND ($2::text IS NULL OR queue = $2::text)
        AND ($3::text IS NULL OR kind = $3::text)
        AND ($4::text IS NULL OR job_group = $4::text)
        AND ($5::text IS NULL OR job_key = $5::text)
        AND status IN ('pending', 'held', 'running') AND status::text = ANY ($6::text::text[])
), locked AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE id = ANY (ARRAY(SELECT id FROM found))
        AND ($2::text IS NULL OR queue = $2::text)
        AND ($3::text IS NULL OR kind = $3::text)
        AND ($4::text IS NULL OR job_group = $4::text)
        AND ($5::text IS NULL OR job_key = $5::text)
        AND status IN ('pending', 'held', 'running') AND status::text = ANY ($6::text::text[])
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    UPDATE errand.jobs AS j
    SET
        cancel_at = statement_timestamp(),
        status = CASE WHEN j.status = 'running' THEN j.status ELSE 'cancelled' END,
        updated_at = CASE WHEN j.status = 'running' THEN j.updated_at ELSE statement_timestamp() END,
        finished_at = CASE WHEN j.status = 'running' THEN j.finished_at ELSE statement_timestamp() END
    WHERE id = ANY (ARRAY(SELECT id FROM locked))
    RETURNING id, CASE WHEN status = 'running' THEN locked_by END AS worker
), told AS (
    SELECT pg_notify('errand', format(E'\x01%s\x01%s', left(worker, 1000),
        CASE WHEN count(*) <= 300 THEN string_agg(id::text, ',') END))
    FROM changed
    WHERE $8::boolean AND worker IS NOT NULL AND $7::boolean IS NOT NULL
    GROUP BY worker
)
SELECT id, true FROM changed WHERE (SELECT count(*) FROM told) >= 0
UNION ALL
(SELECT id, false FROM found EXCEPT SELECT id, false FROM locked);
