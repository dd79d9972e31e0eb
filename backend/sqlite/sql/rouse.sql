-- Draws an id without using it, so that sleeping workers look for jobs that have older ids. Returns that id.
-- Index: none; see seen.sql.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'errand_jobs' COLLATE NOCASE RETURNING seq;
