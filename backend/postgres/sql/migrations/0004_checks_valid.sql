SELECT errand.mend_rows();
DROP FUNCTION errand.mend_rows();

-- Checks the rows that are older than the check. Claims and all other statements go on meanwhile.
ALTER TABLE errand.jobs VALIDATE CONSTRAINT jobs_values_check;
