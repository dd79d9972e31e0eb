-- Changes the jobs with the ids $1 as a claim of worker $2 does, in a transaction that is rolled back: it shows whether
-- the database refuses one. It passes over jobs that other transactions have locked.
-- Index: jobs_pkey.
UPDATE errand.jobs AS j
SET
    status = 'running', attempts = least(j.attempts, 1999999999) + 1, fence = j.fence, locked_at = statement_timestamp(),
    locked_by = $2::text, locked_until = statement_timestamp() + interval '1 minute', updated_at = statement_timestamp(),
    started_at = statement_timestamp(), finished_at = NULL
WHERE j.ctid = ANY (ARRAY(
    SELECT r.ctid FROM errand.jobs r
    WHERE r.id = ANY ((SELECT $1::text::bigint[])::bigint[]) AND r.status = 'pending'
    FOR UPDATE SKIP LOCKED
))
RETURNING j.id;
