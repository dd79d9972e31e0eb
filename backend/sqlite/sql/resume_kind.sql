-- Resumes the kinds in the JSON array ?1.
DELETE FROM errand_paused_kinds WHERE kind IN (SELECT value FROM json_each(?1));
