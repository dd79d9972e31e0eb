-- Returns the status, the last error, the output and the progress of the job with id $1.
-- Index: jobs_pkey, results_pkey.
SELECT
    j.id, j.status::text, coalesce(left(j.last_error, 8192), ''), r.output, r.progress,
    CASE WHEN r.progress_at IS NOT NULL THEN least(greatest(r.progress_at, '1970-01-01Z'), '9999-12-31Z') END
FROM errand.jobs AS j
LEFT JOIN errand.results AS r ON r.job_id = j.id
WHERE j.id = $1::bigint;
