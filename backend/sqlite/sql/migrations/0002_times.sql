-- When a job's run began and ended, and when and how often the job was redriven. No column has a default, so SQLite
-- rewrites no row.
ALTER TABLE errand_jobs ADD COLUMN started_at INTEGER;  -- when this run was claimed; of an ended job, the last one
ALTER TABLE errand_jobs ADD COLUMN finished_at INTEGER; -- when the job was completed or became dead
ALTER TABLE errand_jobs ADD COLUMN redriven_at INTEGER; -- the last time
ALTER TABLE errand_jobs ADD COLUMN redrives INTEGER;    -- how often; NULL for never
ALTER TABLE errand_jobs_archive ADD COLUMN started_at INTEGER;
ALTER TABLE errand_jobs_archive ADD COLUMN finished_at INTEGER;
ALTER TABLE errand_jobs_archive ADD COLUMN redriven_at INTEGER;
ALTER TABLE errand_jobs_archive ADD COLUMN redrives INTEGER;
