-- Cancels the jobs of ?1, a JSON array of ids in ascending order, that have queue ?2, kind ?3, group ?4 and key ?5,
-- each NULL for any, and one of the statuses in the JSON array ?6, of which pending, held and running count. ?7 is now.
-- Of a running job it only notes that it is to be cancelled. Returns the id of each, and its holder if it runs, else
-- NULL. With the statistics of a short table SQLite reads the rows from the first id to the last, and else looks up
-- each.
-- Index: the ids are the table's own order.
UPDATE errand_jobs NOT INDEXED
SET
    cancel_at = ?7,
    status = iif(status = 'running', status, 'cancelled'),
    updated_at = iif(status = 'running', updated_at, ?7),
    finished_at = iif(status = 'running', finished_at, ?7)
WHERE id IN (SELECT value FROM json_each(?1))
    AND id BETWEEN json_extract(?1, '$[0]') AND json_extract(?1, '$[#-1]')
    AND (?2 IS NULL OR queue = ?2)
    AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR job_group = ?4)
    AND (?5 IS NULL OR job_key = ?5)
    AND status IN ('pending', 'held', 'running') AND status IN (SELECT value FROM json_each(?6))
RETURNING id, iif(status = 'running', locked_by, NULL);
