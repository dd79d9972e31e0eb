-- The first half of a claim: reads at most ?1 jobs that are due at ?2, with the columns that a worker needs.
SELECT id, kind, payload, attempts
FROM errand_jobs
WHERE queue = 'default' AND status = 'pending' AND scheduled_at <= ?2
ORDER BY priority, scheduled_at, id
LIMIT ?1;
