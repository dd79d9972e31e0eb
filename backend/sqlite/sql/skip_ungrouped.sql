-- Returns the place of the last of those jobs that due_ungrouped.sql looks at, if there are a thousand.
-- Index: errand_jobs_pending.
SELECT scheduled_at, id
FROM errand_jobs INDEXED BY errand_jobs_pending
WHERE queue = ?1 AND status = 'pending' AND priority = ?2 AND scheduled_at <= ?3 AND (scheduled_at, id) > (?4, ?5)
ORDER BY scheduled_at, id
LIMIT 1 OFFSET 999;
