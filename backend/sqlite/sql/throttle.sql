-- Empties the bucket of group ?2 of queue ?1 until ?3.
INSERT INTO errand_tokens (queue, job_group, at, full_at, each, until) VALUES (?1, ?2, 0, 0, 0, ?3)
ON CONFLICT (queue, job_group) DO UPDATE SET until = max(until, excluded.until);
