-- Redrives the jobs with the ids $1, if they have queue $2, kind $3, group $4 and key $5, each NULL for any, and one of
-- the statuses $6, of which dead, cancelled and held count. Returns the ids that it has found, each with true if it has
-- redriven the job, and with false if the job has to be redriven alone: another transaction has locked it, or it has a
-- key and $7 is false. An UPDATE writes its rows in no certain order, and a transaction that holds one key and waits
-- for another can deadlock with an Enqueue of both. For one job at a time the program removes SKIP LOCKED. A job does
-- not get its key back while another live job has it: its id is not returned then.
-- Index: jobs_pkey, jobs_key_idx.
WITH found AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND ($2::text IS NULL OR queue = $2::text)
        AND ($3::text IS NULL OR kind = $3::text)
        AND ($4::text IS NULL OR job_group = $4::text)
        AND ($5::text IS NULL OR job_key = $5::text)
        AND status IN ('dead', 'cancelled', 'held') AND status::text = ANY ($6::text::text[])
), locked AS MATERIALIZED (
    SELECT id, queue, job_key FROM errand.jobs
    WHERE id = ANY (ARRAY(SELECT id FROM found))
        AND ($2::text IS NULL OR queue = $2::text)
        AND ($3::text IS NULL OR kind = $3::text)
        AND ($4::text IS NULL OR job_group = $4::text)
        AND ($5::text IS NULL OR job_key = $5::text)
        AND status IN ('dead', 'cancelled', 'held') AND status::text = ANY ($6::text::text[])
        AND ($7::boolean OR job_key IS NULL)
    ORDER BY id
    FOR UPDATE SKIP LOCKED
), redriven AS (
    UPDATE errand.jobs
    SET status = 'pending', attempts = 0, last_error = NULL, scheduled_at = (SELECT clock_timestamp()),
        fence = CASE WHEN fence > 0 THEN -fence ELSE fence END, -- see claim.sql
        locked_at = NULL, locked_by = NULL, locked_until = NULL, updated_at = statement_timestamp(),
        started_at = NULL, finished_at = NULL, cancel_at = NULL, redriven_at = statement_timestamp(),
        redrives = least(greatest(redrives, 0), 1999999999) + 1
    WHERE id = ANY (ARRAY(
        SELECT l.id FROM locked l
        WHERE l.job_key IS NULL OR NOT EXISTS (
            SELECT FROM errand.jobs live
            WHERE live.queue = l.queue AND live.job_key = l.job_key AND live.id <> l.id
                AND live.status IN ('pending', 'running', 'held'))))
    RETURNING id, queue
), woken AS (
    SELECT pg_notify('errand', r.queue)
    FROM (SELECT DISTINCT queue FROM redriven) AS r
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = r.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT id, true FROM redriven WHERE (SELECT count(*) FROM woken) >= 0
UNION ALL
(SELECT id, false FROM found EXCEPT SELECT id, false FROM locked);
