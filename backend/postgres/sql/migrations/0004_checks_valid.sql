-- Mends the rows that were written before the triggers were there.
SELECT errand.mend_rows();
DROP FUNCTION errand.mend_rows();
