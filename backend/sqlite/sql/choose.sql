-- Lists at most ?6 ids above ?5 of the jobs of queue ?1, kind ?2, group ?3 and key ?4, each NULL for any, that are
-- pending. For another status the program replaces the word pending by its name.
-- Index: errand_jobs_pending; errand_jobs_running, errand_jobs_held, errand_jobs_dead, errand_jobs_cancelled.
SELECT id
FROM errand_jobs INDEXED BY errand_jobs_pending
WHERE status = 'pending'
    AND (?1 IS NULL OR queue = ?1)
    AND (?2 IS NULL OR kind = ?2)
    AND (?3 IS NULL OR job_group = ?3)
    AND (?4 IS NULL OR job_key = ?4)
    AND id > ?5
ORDER BY id
LIMIT ?6 + 0;
