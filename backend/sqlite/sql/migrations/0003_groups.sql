-- The group of a job: what it shares with other jobs of its queue. NULL for none.
ALTER TABLE errand_jobs ADD COLUMN job_group TEXT;
ALTER TABLE errand_jobs_archive ADD COLUMN job_group TEXT;

-- Serves claims that go from group to group.
CREATE INDEX errand_jobs_group ON errand_jobs (queue, job_group, priority, scheduled_at)
    WHERE job_group IS NOT NULL AND status = 'pending';
