-- Forgets at most ?2 sources that are over at ?1. It runs with each call that remembers sources, so the table cannot
-- grow by those that are over.
-- Index: errand_received_until, the primary key.
DELETE FROM errand_received
WHERE source IN (SELECT source FROM errand_received WHERE until <= ?1 ORDER BY until LIMIT ?2);
