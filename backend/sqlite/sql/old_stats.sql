-- Reports whether there are statistics of minutes before ?1.
-- Index: the primary key.
SELECT EXISTS (SELECT 1 FROM errand_stats WHERE minute < ?1);
