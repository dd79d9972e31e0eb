-- When a job's run began and ended, and when and how often the job was redriven. No column has a default, so the server
-- writes no row for them. jobs_archive gets the same columns in the same order, as the guide's statement needs them.
ALTER TABLE errand.jobs
    ADD COLUMN started_at  timestamptz, -- when the claim of this run, or of the last one of an ended job, was made
    ADD COLUMN finished_at timestamptz, -- when the job was completed or became dead
    ADD COLUMN redriven_at timestamptz, -- the last time
    ADD COLUMN redrives    integer;     -- how often; NULL for never
ALTER TABLE errand.jobs_archive
    ADD COLUMN started_at  timestamptz,
    ADD COLUMN finished_at timestamptz,
    ADD COLUMN redriven_at timestamptz,
    ADD COLUMN redrives    integer;
