-- Reports whether there are records of workers that have not reported themselves since ?1.
-- Index: none; the table is short.
SELECT EXISTS (SELECT 1 FROM errand_workers WHERE seen_at < ?1);
