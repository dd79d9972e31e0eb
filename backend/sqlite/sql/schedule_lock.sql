-- Changes nothing, but takes the write lock, so that the statements that follow may read first.
UPDATE errand_schedules SET version = version WHERE name = '';
