-- Counts the jobs of the ids $1 that have queue $2, kind $3, group $4 and key $5, each NULL for any. For any id the
-- program replaces the condition on ids by $1::text IS NULL, and for jobs of one status AND true by AND status = '...'.
-- Index: jobs_pkey with ids; without them jobs_pending_idx, jobs_running_idx or jobs_stopped_idx for such a status.
SELECT queue, status::text, count(*), true
FROM errand.jobs
WHERE id = ANY (($1::text)::bigint[])
    AND true
    AND ($2::text IS NULL OR queue = $2::text)
    AND ($3::text IS NULL OR kind = $3::text)
    AND ($4::text IS NULL OR job_group = $4::text)
    AND ($5::text IS NULL OR job_key = $5::text)
GROUP BY queue, status
ORDER BY queue, status;
