-- Makes leases last: $1 ids in their order, $2 the fence of each, $3 worker, $4 lease in microseconds. Returns the ids
-- that are not the worker's any more. It waits for nobody: a row that is locked is being settled by its handler's
-- transaction, or taken away, which the next extension will see. The rows are locked in the order of their ids.
-- A row's fence is found by a binary search for its id: a join could be planned the wrong way round.
-- BETWEEN … AND the same keeps the planner from taking jobs_running_idx and filtering it by every id.
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
)
SELECT want.id FROM unnest((SELECT $1::text::bigint[])) AS want (id)
EXCEPT
SELECT id FROM errand.jobs
WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
    AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
    AND locked_by = $3::text
    AND status BETWEEN 'running' AND 'running';
