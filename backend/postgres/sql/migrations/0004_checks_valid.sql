-- Looks at the rows that were there before the check. Claims and all else go on meanwhile.
ALTER TABLE errand.jobs VALIDATE CONSTRAINT jobs_values_check;
