-- Returns the last id that was drawn. It rises when jobs are enqueued or become pending again.
-- Index: none; the table has a row for each table with AUTOINCREMENT.
SELECT seq FROM sqlite_sequence WHERE name = 'errand_jobs' COLLATE NOCASE;
