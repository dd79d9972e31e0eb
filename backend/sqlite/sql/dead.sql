-- Lists at most ?4 dead jobs with ids above ?5: the one with id ?1, or those of queue ?2 and kind ?3. Each of
-- these three may be NULL for any.
-- Index: errand_jobs_dead.
SELECT id
FROM errand_jobs INDEXED BY errand_jobs_dead
WHERE status = 'dead'
    AND id > ?5
    AND (?1 IS NULL OR id = ?1)
    AND (?2 IS NULL OR queue = ?2)
    AND (?3 IS NULL OR kind = ?3)
ORDER BY id
LIMIT ?4 + 0;
