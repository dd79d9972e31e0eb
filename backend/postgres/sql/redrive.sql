-- Redrives at most $4 dead jobs: the one with id $1, or those of queue $2 and kind $3, each NULL for any, with ids
-- above $5. Returns how many rows it looked at, how many it changed, and the last id that it looked at.
-- $6 chooses the jobs that have a key or those that have none. With a key, $4 must be 1: an UPDATE writes its rows in
-- no certain order, and a transaction that holds one key and waits for another can deadlock with an Enqueue of both. A
-- job does not get its key back while a live job has it.
-- Index: jobs_dead_idx, jobs_key_idx.
WITH dead AS MATERIALIZED (
    SELECT d.id, d.queue, d.job_key
    FROM errand.jobs d
    WHERE d.status = 'dead'
        AND ($1::bigint IS NULL OR d.id = $1::bigint)
        AND ($2::text IS NULL OR d.queue = $2::text)
        AND ($3::text IS NULL OR d.kind = $3::text)
        AND d.id > $5::bigint
        AND (d.job_key IS NOT NULL) = $6::boolean
    ORDER BY d.id
    LIMIT $4::integer
    FOR UPDATE SKIP LOCKED
), redriven AS (
    UPDATE errand.jobs
    SET status = 'pending', attempts = 0, last_error = NULL, scheduled_at = (SELECT clock_timestamp()), fence = 0,
        locked_at = NULL, locked_by = NULL, locked_until = NULL, updated_at = statement_timestamp(),
        started_at = NULL, finished_at = NULL, cancel_at = NULL, redriven_at = statement_timestamp(),
        redrives = least(greatest(redrives, 0), 1999999999) + 1
    WHERE id = ANY (ARRAY(
        SELECT d.id FROM dead d
        WHERE d.job_key IS NULL OR NOT EXISTS (
            SELECT FROM errand.jobs live
            WHERE live.queue = d.queue AND live.job_key = d.job_key AND live.status IN ('pending', 'running', 'held'))))
    RETURNING queue
), woken AS (
    SELECT pg_notify('errand', r.queue)
    FROM (SELECT DISTINCT queue FROM redriven) AS r
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = r.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT
    (SELECT count(*) FROM dead), (SELECT count(*) FROM redriven), coalesce((SELECT max(id) FROM dead), 0),
    (SELECT count(*) FROM woken);
