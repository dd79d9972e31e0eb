-- The second half of a claim, in the same transaction: takes the jobs whose ids are in the JSON array ?1 for ?2, from
-- ?3 until ?4. One statement with RETURNING for both halves is slower.
UPDATE errand_jobs
SET
    status = 'running',
    attempts = attempts + 1,
    locked_at = ?3,
    locked_by = ?2,
    locked_until = ?4,
    updated_at = ?3
WHERE id IN (SELECT value FROM json_each(?1));
