-- Lists at most ?5 entries of the audit log with ids below ?4, newest first: of actor ?1, action ?2 and job ?3, each
-- NULL for any. For a job the program removes its IS NULL, so that SQLite uses the index.
-- Index: errand_audit_job; the ids are the table's own order.
SELECT id, at, actor, action, coalesce(selection, ''), count, coalesce(reason, ''), coalesce(job_id, 0)
FROM errand_audit
WHERE (?1 IS NULL OR actor = ?1)
    AND (?2 IS NULL OR action = ?2)
    AND (?3 IS NULL OR job_id = ?3)
    AND id < ?4
ORDER BY id DESC
LIMIT ?5 + 0;
