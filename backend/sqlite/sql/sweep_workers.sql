-- Removes the records of workers that have not reported themselves since ?1.
-- Index: none; the table is short.
DELETE FROM errand_workers WHERE seen_at < ?1;
