-- Makes leases last: $1 ids and $2 fences as arrays, $3 worker, $4 lease in microseconds. Returns the ids that are not
-- the worker's any more. It waits for nobody: a row that is locked is being settled by its handler's transaction, or
-- taken away, which the next extension will see. The rows are locked in the order of their ids.
-- The cast of status keeps the planner from taking jobs_running_idx and filtering it by every id.
-- Index: jobs_pkey.
WITH extended AS (
    UPDATE errand.jobs
    SET
        locked_at = statement_timestamp(),
        locked_until = statement_timestamp() + $4::bigint * interval '1 microsecond'
    WHERE id = ANY (ARRAY(
        SELECT id FROM errand.jobs
        WHERE id = ANY ($1::text::bigint[])
            AND fence = ANY ($2::text::bigint[])
            AND locked_by = $3::text
            AND status::text = 'running'
        ORDER BY id
        FOR NO KEY UPDATE SKIP LOCKED
    ))
)
SELECT want.id FROM unnest($1::text::bigint[]) AS want (id)
EXCEPT
SELECT id FROM errand.jobs
WHERE id = ANY ($1::text::bigint[])
    AND fence = ANY ($2::text::bigint[])
    AND locked_by = $3::text
    AND status::text = 'running';
