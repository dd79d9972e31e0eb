-- Locks the jobs with the ids $1 that no other transaction has locked. Claims then pass over them.
-- Index: jobs_pkey.
SELECT id FROM errand.jobs
WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
ORDER BY id
FOR UPDATE SKIP LOCKED;
