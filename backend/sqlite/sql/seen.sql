-- Returns the last id that was drawn: what has been enqueued or redriven makes it rise.
-- Index: none; the table has a row for each table with AUTOINCREMENT.
SELECT seq FROM sqlite_sequence WHERE name = 'errand_jobs' COLLATE NOCASE;
