-- Returns the server's clock, in microseconds since 1970, and the schedules $1, or all if it is NULL. If there is none,
-- it returns the clock alone.
-- Index: schedules_pkey.
SELECT
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    coalesce(s.name, ''), coalesce(s.spec, ''), coalesce(s.zone, ''), coalesce(s.job::text, ''), coalesce(s.missed, ''),
    coalesce(s.grace, 0), coalesce(s.overlap, false), coalesce(s.paused, false),
    coalesce((extract(epoch FROM s.next_at) * 1000000)::bigint, 0),
    coalesce((extract(epoch FROM s.last_tick) * 1000000)::bigint, 0),
    coalesce(s.last_job, 0), coalesce(s.skipped, 0), coalesce(s.version, 0), coalesce(s.digest, ''),
    coalesce(s.release, 0), coalesce(s.edited, false), coalesce(s.deleted, false),
    coalesce((extract(epoch FROM s.updated_at) * 1000000)::bigint, 0)
FROM (SELECT) AS one
LEFT JOIN errand.schedules s ON $1::text IS NULL OR s.name = ANY ($1::text::text[])
ORDER BY s.name COLLATE "C";
