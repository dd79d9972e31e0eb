-- The last failures of a job (queue.Failure), as a JSON array; NULL until the first. Only statements that record a
-- failure write it. It has no default, so SQLite rewrites no row.
ALTER TABLE errand_jobs ADD COLUMN history TEXT;
ALTER TABLE errand_jobs_archive ADD COLUMN history TEXT;
