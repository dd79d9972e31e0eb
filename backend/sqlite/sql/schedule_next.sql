-- Returns when the next tick of a schedule comes, or NULL if there is none. It leaves out the schedules of the JSON
-- array ?1, which could not be fired, and those up to ?2.
-- Index: errand_schedules_next.
SELECT (
    SELECT next_at
    FROM errand_schedules INDEXED BY errand_schedules_next
    WHERE next_at IS NOT NULL AND next_at > ?2 AND name NOT IN (SELECT value FROM json_each(?1))
    ORDER BY next_at
    LIMIT 1);
