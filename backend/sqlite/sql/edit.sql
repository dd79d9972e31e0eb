-- Changes the jobs of ?1, a JSON array of ids in ascending order, that have queue ?2, kind ?3, group ?4 and key ?5,
-- each NULL for any, and one of the statuses in the JSON array ?6, of which pending and held count. ?7 is now. ?8 makes
-- a job pending and due now; else it is due at ?9. ?10 is its priority, ?11 its payload, ?12 its queue, ?13 its
-- max_attempts. Each may be NULL, and then stays as it is. OR IGNORE leaves a job as it is if a live job has its key in
-- the new queue. Returns the queue of each, or '' if it is held.
-- With the statistics of a short table SQLite reads the rows from the first id to the last, and else looks up each.
-- Index: the ids are the table's own order; errand_jobs_key.
UPDATE OR IGNORE errand_jobs NOT INDEXED
SET
    status = iif(?8, 'pending', status),
    scheduled_at = iif(?8, ?7, coalesce(?9, scheduled_at)),
    priority = iif(priority = 2147483647 AND job_group IS NOT NULL, priority, coalesce(?10, priority)),
    payload = coalesce(?11, payload),
    queue = coalesce(?12, queue),
    max_attempts = coalesce(?13, max_attempts),
    updated_at = ?7
WHERE id IN (SELECT value FROM json_each(?1))
    AND id BETWEEN json_extract(?1, '$[0]') AND json_extract(?1, '$[#-1]')
    AND (?2 IS NULL OR queue = ?2)
    AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR job_group = ?4)
    AND (?5 IS NULL OR job_key = ?5)
    AND status IN ('pending', 'held') AND status IN (SELECT value FROM json_each(?6))
RETURNING iif(status = 'pending', queue, '');
