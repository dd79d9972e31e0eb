-- Extends leases: $1 ids in ascending order, $2 the fence of each, $3 worker, $4 lease in microseconds. Returns the ids
-- of lost jobs with false, and with true those of held jobs that the worker is asked to cancel.
-- It never waits for a lock. A locked row is being settled by its handler's transaction, or reclaimed, which the next
-- extension sees. Rows are locked in the order of their ids.
-- A binary search for the id finds a row's fence: a join could be planned the wrong way round. BETWEEN with one value
-- keeps the planner from reading jobs_running_idx and filtering it by every id.
-- Index: jobs_pkey.
WITH extended AS (
    UPDATE errand.jobs
    SET
        locked_at = statement_timestamp(),
        locked_until = statement_timestamp() + $4::bigint * interval '1 microsecond'
    WHERE id = ANY (ARRAY(
        SELECT id FROM errand.jobs
        WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
            AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
            AND locked_by = $3::text
            AND status BETWEEN 'running' AND 'running'
        ORDER BY id
        FOR NO KEY UPDATE SKIP LOCKED
    ))
), held AS MATERIALIZED (
    SELECT id, cancel_at FROM errand.jobs
    WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
        AND locked_by = $3::text
        AND status BETWEEN 'running' AND 'running'
)
(SELECT want.id, false FROM unnest((SELECT $1::text::bigint[])) AS want (id) EXCEPT SELECT id, false FROM held)
UNION ALL
SELECT id, true FROM held WHERE cancel_at IS NOT NULL;
