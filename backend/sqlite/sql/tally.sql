-- Counts the jobs of ?1, a JSON array of ids, that have queue ?2, kind ?3, group ?4 and key ?5, each NULL for any. For
-- any id the program replaces the condition on ids by ?1 IS NULL, and for jobs of one status AND true by
-- AND status = '...'.
-- Index: the ids are the table's own order; without them the index of such a status, such as errand_jobs_pending.
SELECT queue, status, count(*)
FROM errand_jobs
WHERE id IN (SELECT value FROM json_each(?1))
    AND true
    AND (?2 IS NULL OR queue = ?2)
    AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR job_group = ?4)
    AND (?5 IS NULL OR job_key = ?5)
GROUP BY queue, status
ORDER BY queue, status;
