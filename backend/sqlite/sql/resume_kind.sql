-- Resumes the kind ?1.
DELETE FROM errand_paused_kinds WHERE kind = ?1;
