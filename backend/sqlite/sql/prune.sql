-- Removes the job with id ?1 if it has completed by ?2, or was dead or cancelled by ?3. Only for a single id does
-- SQLite always look the row up: see errand_jobs_running in migrations/0001_jobs.sql.
-- Index: the ids are the table's own order.
DELETE FROM errand_jobs NOT INDEXED
WHERE id = ?1
    AND (status = 'completed' AND updated_at <= ?2 OR status IN ('dead', 'cancelled') AND updated_at <= ?3);
