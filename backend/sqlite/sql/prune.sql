-- Removes jobs that are over: ?1 is the JSON array of the ids of those that were when they were looked at. Completed ones are over where
-- they ended by ?2, dead ones by ?3.
-- Index: the ids are the table's own order.
DELETE FROM errand_jobs
WHERE id IN (SELECT value FROM json_each(?1))
    AND (status = 'completed' AND updated_at <= ?2 OR +status = 'dead' AND updated_at <= ?3);
