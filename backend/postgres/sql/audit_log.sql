-- Lists at most $5 entries of the audit log with ids below $4, newest first: of actor $1, action $2 and job $3, each
-- NULL for any. For a job the program removes its IS NULL, so that the planner uses its index.
-- Index: audit_pkey, audit_job_idx.
SELECT
    id, least(greatest(at, '1970-01-01Z'), '9999-12-31Z'), actor, action, coalesce(selection, ''), count, coalesce(reason, ''),
    coalesce(job_id, 0)
FROM errand.audit
WHERE ($1::text IS NULL OR actor = $1::text)
    AND ($2::text IS NULL OR action = $2::text)
    AND ($3::bigint IS NULL OR job_id = $3::bigint)
    AND id < $4::bigint
ORDER BY id DESC
LIMIT $5::integer;
