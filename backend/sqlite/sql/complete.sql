-- Completes the job with id ?1, which the transaction has claimed with fence ?2, at ?3. If the work fails,
-- resume.sql makes the job running again.
-- Index: the ids are the table's own order.
UPDATE errand_jobs
SET
    status = 'completed', attempts = min(attempts, 2147483646) + 1, fence = ?2, locked_by = NULL, updated_at = ?3,
    started_at = ?3, finished_at = ?3
WHERE id = ?1;
