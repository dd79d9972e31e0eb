-- When somebody asked for the job to be cancelled.
ALTER TABLE errand_jobs ADD COLUMN cancel_at INTEGER;
ALTER TABLE errand_jobs_archive ADD COLUMN cancel_at INTEGER;

-- Serve the lists and the counts of held and of cancelled jobs.
CREATE INDEX errand_jobs_held ON errand_jobs (id) WHERE status = 'held';
CREATE INDEX errand_jobs_cancelled ON errand_jobs (id) WHERE status = 'cancelled';

-- A held job keeps its key.
DROP INDEX errand_jobs_key;
CREATE UNIQUE INDEX errand_jobs_key ON errand_jobs (queue, job_key)
    WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held');
