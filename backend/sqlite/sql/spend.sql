-- Writes the bucket of group ?2 of queue ?1: ?3 at, ?4 full_at, ?5 each.
INSERT INTO errand_tokens (queue, job_group, at, full_at, each, until) VALUES (?1, ?2, ?3, ?4, ?5, 0)
ON CONFLICT (queue, job_group) DO UPDATE SET at = excluded.at, full_at = excluded.full_at, each = excluded.each;
