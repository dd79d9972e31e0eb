-- Lists what choose.sql lists, for a status that has no index: completed, whose index settling would pay for, or
-- failed. It reads the whole table. The program replaces the word pending by the name of the status.
-- Index: the ids are the table's own order.
SELECT id
FROM errand_jobs NOT INDEXED
WHERE status = 'pending'
    AND (?1 IS NULL OR queue = ?1)
    AND (?2 IS NULL OR kind = ?2)
    AND (?3 IS NULL OR job_group = ?3)
    AND (?4 IS NULL OR job_key = ?4)
    AND id > ?5
ORDER BY id
LIMIT ?6 + 0;
