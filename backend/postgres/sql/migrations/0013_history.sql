-- The last failures of a job (queue.Failure), as a JSON array; NULL until the first. Only statements that record a failure
-- write it. It has no default, so the server writes no row for it.
ALTER TABLE errand.jobs ADD COLUMN history jsonb;
ALTER TABLE errand.jobs_archive ADD COLUMN history jsonb;
