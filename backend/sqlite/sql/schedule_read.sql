-- Returns the schedules of the JSON array ?1, or all if it is NULL, in the order of their names.
-- Index: the primary key.
SELECT
    name, spec, zone, job, missed, grace, overlap, paused, coalesce(next_at, 0), coalesce(last_tick, 0),
    coalesce(last_job, 0), skipped, version, coalesce(digest, ''), release, edited, deleted, updated_at
FROM errand_schedules
WHERE ?1 IS NULL OR name IN (SELECT value FROM json_each(?1))
ORDER BY name;
