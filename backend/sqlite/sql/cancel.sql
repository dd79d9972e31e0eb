-- Cancels the job with id ?1, if it has queue ?2, kind ?3, group ?4 and key ?5, each NULL for any, and one of the
-- statuses in the JSON array ?6, of which pending, held and running count. ?7 is now. Of a running job it only notes
-- that it is to be cancelled. Returns the job's holder if it runs, else NULL.
-- Index: the ids are the table's own order.
UPDATE errand_jobs NOT INDEXED
SET
    cancel_at = ?7,
    status = iif(status = 'running', status, 'cancelled'),
    updated_at = iif(status = 'running', updated_at, ?7),
    finished_at = iif(status = 'running', finished_at, ?7)
WHERE id = ?1
    AND (?2 IS NULL OR queue = ?2)
    AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR job_group = ?4)
    AND (?5 IS NULL OR job_key = ?5)
    AND status IN ('pending', 'held', 'running') AND status IN (SELECT value FROM json_each(?6))
RETURNING iif(status = 'running', locked_by, NULL);
