-- Removes the record of worker ?1.
-- Index: the primary key.
DELETE FROM errand_workers WHERE worker = ?1;
