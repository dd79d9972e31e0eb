-- Pauses queue ?1, or its group ?2 unless that is '', if ?3 is true, and resumes it otherwise. It changes no row if it
-- is so already.
INSERT INTO errand_rules (queue, job_group, paused, running, per_group, share)
SELECT ?1, ?2, ?3, 0, 0, 0
WHERE ?3 <> EXISTS (SELECT 1 FROM errand_rules WHERE queue = ?1 AND job_group = ?2 AND paused)
ON CONFLICT (queue, job_group) DO UPDATE SET paused = excluded.paused;
