-- Records the progress of jobs: $1 ids in ascending order, $2 the fence of each, $3 worker, $4 the values, a JSON
-- object by id. It ignores jobs that the worker does not hold, and does not touch their rows.
-- Index: jobs_pkey, results_pkey.
INSERT INTO errand.results (job_id, progress, progress_at)
SELECT id, (SELECT $4::text::jsonb) -> id::text, statement_timestamp()
FROM errand.jobs
WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
    AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
    AND locked_by = $3::text
    AND status BETWEEN 'running' AND 'running'
ORDER BY id
ON CONFLICT (job_id) DO UPDATE SET progress = excluded.progress, progress_at = excluded.progress_at;
