-- Lists at most $7 ids above $6 of the jobs of queue $1, kind $2, group $3 and key $4, each NULL for any, that have one
-- of the statuses $5, in ascending order. It is one statement, so a job whose status changes meanwhile is listed once.
-- A status that is not wanted costs nothing. id + 0 keeps the planner from reading jobs_pkey, where ended jobs are.
-- Index: jobs_pending_idx, jobs_running_idx, jobs_stopped_idx.
SELECT c.id
FROM (
    SELECT id, queue, kind, job_group, job_key FROM errand.jobs
    WHERE status = 'pending' AND 'pending' = ANY ($5::text::text[])
    UNION ALL
    SELECT id, queue, kind, job_group, job_key FROM errand.jobs
    WHERE status = 'running' AND 'running' = ANY ($5::text::text[])
    UNION ALL
    SELECT id, queue, kind, job_group, job_key FROM errand.jobs
    WHERE status = 'held' AND 'held' = ANY ($5::text::text[])
    UNION ALL
    SELECT id, queue, kind, job_group, job_key FROM errand.jobs
    WHERE status = 'dead' AND 'dead' = ANY ($5::text::text[])
    UNION ALL
    SELECT id, queue, kind, job_group, job_key FROM errand.jobs
    WHERE status = 'cancelled' AND 'cancelled' = ANY ($5::text::text[])
) AS c
WHERE ($1::text IS NULL OR c.queue = $1::text)
    AND ($2::text IS NULL OR c.kind = $2::text)
    AND ($3::text IS NULL OR c.job_group = $3::text)
    AND ($4::text IS NULL OR c.job_key = $4::text)
    AND c.id + 0 > $6::bigint
ORDER BY c.id + 0
LIMIT $7::integer;
