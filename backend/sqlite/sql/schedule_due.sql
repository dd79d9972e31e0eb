-- Returns at most ?3 schedules whose next tick has come at ?2, except those of the JSON array ?1.
-- Index: errand_schedules_next.
SELECT
    name, spec, zone, job, missed, grace, overlap, paused, coalesce(next_at, 0), coalesce(last_tick, 0),
    coalesce(last_job, 0), skipped, version, coalesce(digest, ''), release, edited, deleted, updated_at
FROM errand_schedules INDEXED BY errand_schedules_next
WHERE next_at IS NOT NULL AND next_at <= ?2 AND name NOT IN (SELECT value FROM json_each(?1))
ORDER BY next_at
LIMIT ?3;
