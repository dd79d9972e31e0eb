-- Removes statistics of minutes before ?1.
-- Index: the primary key.
DELETE FROM errand_stats WHERE minute < ?1;
