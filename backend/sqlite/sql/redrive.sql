-- Redrives the jobs of ?1, a JSON array of ids in ascending order, that have queue ?2, kind ?3, group ?4 and key ?5,
-- each NULL for any, and one of the statuses in the JSON array ?6, of which dead, cancelled and held count. ?7 is now.
-- OR IGNORE leaves a job as it is if another live job has its key. Returns the queue of each job that is pending now.
-- With the statistics of a short table SQLite reads the rows from the first id to the last, and else looks up each.
-- Index: the ids are the table's own order; errand_jobs_key.
UPDATE OR IGNORE errand_jobs NOT INDEXED
SET
    status = 'pending',
    attempts = 0,
    last_error = NULL,
    scheduled_at = ?7,
    fence = 0,
    locked_at = NULL,
    locked_until = NULL,
    locked_by = NULL,
    updated_at = ?7,
    started_at = NULL,
    finished_at = NULL,
    cancel_at = NULL,
    redriven_at = ?7,
    redrives = min(max(coalesce(redrives, 0), 0), 2147483646) + 1
WHERE id IN (SELECT value FROM json_each(?1))
    AND id BETWEEN json_extract(?1, '$[0]') AND json_extract(?1, '$[#-1]')
    AND (?2 IS NULL OR queue = ?2)
    AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR job_group = ?4)
    AND (?5 IS NULL OR job_key = ?5)
    AND status IN ('dead', 'cancelled', 'held') AND status IN (SELECT value FROM json_each(?6))
RETURNING queue;
