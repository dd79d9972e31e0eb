-- The last ID that was drawn; 0 for none.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM errand.jobs_id_seq
