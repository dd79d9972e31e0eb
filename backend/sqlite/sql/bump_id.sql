-- Draws an id without using it. It wakes sleeping workers, because jobs with older ids have become pending
-- again. Returns the id.
-- Index: none; see last_id.sql.
UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'errand_jobs' COLLATE NOCASE RETURNING seq;
