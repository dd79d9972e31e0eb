-- Moves a schedule on whose tick ?3 was fired.
-- Index: the primary key.
UPDATE errand_schedules
SET next_at = nullif(?4, 0), last_tick = nullif(?5, 0), last_job = nullif(?6, 0), skipped = ?7
WHERE name = ?1 AND version = ?2 AND next_at = ?3;
