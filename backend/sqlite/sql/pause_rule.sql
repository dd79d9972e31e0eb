-- Pauses queue ?1, or its group ?2 unless that is '', if ?3 is true, and resumes it otherwise.
INSERT INTO errand_rules (queue, job_group, paused, running, per_group, share) VALUES (?1, ?2, ?3, 0, 0, 0)
ON CONFLICT (queue, job_group) DO UPDATE SET paused = excluded.paused;
