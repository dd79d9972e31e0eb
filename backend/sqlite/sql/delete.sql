-- Deletes the jobs of ?1, a JSON array of ids in ascending order, that have queue ?2, kind ?3, group ?4 and key ?5,
-- each NULL for any, and one of the statuses in the JSON array ?6, of which all but running count. ?7 means nothing
-- here. Returns for each the queue whose workers to wake, or '': after an ordered job that waits, the next one of its
-- group may be due. remove_results.sql follows.
-- With the statistics of a short table SQLite reads the rows from the first id to the last, and else looks up each.
-- Index: the ids are the table's own order.
DELETE FROM errand_jobs NOT INDEXED
WHERE id IN (SELECT value FROM json_each(?1))
    AND id BETWEEN json_extract(?1, '$[0]') AND json_extract(?1, '$[#-1]')
    AND (?2 IS NULL OR queue = ?2)
    AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR job_group = ?4)
    AND (?5 IS NULL OR job_key = ?5)
    AND status <> 'running' AND status IN (SELECT value FROM json_each(?6)) AND ?7 IS NOT NULL
RETURNING iif(priority = 2147483647 AND job_group IS NOT NULL AND status IN ('pending', 'held'), queue, '');
