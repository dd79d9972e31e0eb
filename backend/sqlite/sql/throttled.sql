-- Returns queue and group of job ?1 if worker ?3 holds it with fence ?2.
-- Index: the ids are the table's own order.
SELECT queue, coalesce(job_group, '')
FROM errand_jobs
WHERE id = ?1 AND fence = ?2 AND locked_by = ?3 AND status = 'running';
