-- Deletes a schedule if its version is still ?2.
-- Index: the primary key.
DELETE FROM errand_schedules WHERE name = ?1 AND version = ?2;
