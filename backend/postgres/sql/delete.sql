-- Deletes the jobs with the ids $1, if they have queue $2, kind $3, group $4 and key $5, each NULL for any, and one of
-- the statuses $6, of which all but running count. Their results go, too. Returns the ids that it has found, each with
-- true if it has deleted the job and with false if another transaction has locked it. For one job at a time the program
-- removes SKIP LOCKED: the statement then waits. $7 means nothing here. Where it deletes an ordered job that waits, the
-- next job of its group may be due: it wakes the workers of the queue.
-- Index: jobs_pkey, results_pkey.
WITH found AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND ($2::text IS NULL OR queue = $2::text)
        AND ($3::text IS NULL OR kind = $3::text)
        AND ($4::text IS NULL OR job_group = $4::text)
        AND ($5::text IS NULL OR job_key = $5::text)
        AND status <> 'running' AND status::text = ANY ($6::text::text[])
), locked AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE id = ANY (ARRAY(SELECT id FROM found))
        AND ($2::text IS NULL OR queue = $2::text)
        AND ($3::text IS NULL OR kind = $3::text)
        AND ($4::text IS NULL OR job_group = $4::text)
        AND ($5::text IS NULL OR job_key = $5::text)
        AND status <> 'running' AND status::text = ANY ($6::text::text[])
    ORDER BY id
    FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM errand.jobs
    WHERE id = ANY (ARRAY(SELECT id FROM locked))
    RETURNING id, queue, status, ordered
), results AS (
    DELETE FROM errand.results WHERE job_id = ANY (ARRAY(SELECT id FROM deleted))
), woken AS (
    SELECT pg_notify('errand', d.queue)
    FROM (SELECT DISTINCT queue FROM deleted WHERE ordered AND status IN ('pending', 'held')) AS d
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = d.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT id, true FROM deleted WHERE (SELECT count(*) FROM woken) >= 0 AND $7::boolean IS NOT NULL
UNION ALL
(SELECT id, false FROM found EXCEPT SELECT id, false FROM locked);
