-- Makes worker $4 the holder of jobs that claim_tx.sql has claimed in this transaction, so that they can be settled: $1
-- ids in ascending order, $2 the fence of each, $3 completed for jobs that stay completed, running for the others.
-- Returns the ids that it has found.
-- It ignores a job that an earlier transaction has claimed and completed: its updated_at is the time of that
-- transaction.
-- Index: jobs_pkey.
UPDATE errand.jobs
SET
    status = $3::text::errand.job_status,
    locked_by = CASE $3::text WHEN 'running' THEN $4::text END,
    locked_at = CASE $3::text WHEN 'running' THEN statement_timestamp() END,
    locked_until = CASE $3::text WHEN 'running' THEN statement_timestamp() END,
    updated_at = statement_timestamp(),
    finished_at = CASE $3::text WHEN 'completed' THEN statement_timestamp() END
WHERE id = ANY ((SELECT $1::text::bigint[])::bigint[])
    AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
    AND locked_by IS NULL
    AND status BETWEEN 'completed' AND 'completed'
    AND updated_at = transaction_timestamp()
RETURNING id;
