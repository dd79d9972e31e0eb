-- Locks at most $2 schedules whose next tick has come, except the schedules $1, which could not be fired, and those
-- that are locked: another process is firing them, or a transaction changes them. Returns the server's clock, in
-- microseconds since 1970, and the schedules up to the one with which their jobs have $3 bytes. The transaction then
-- waits for a lock for a second at most: a transaction may hold the key of a job.
-- Index: schedules_next_idx, which clock_timestamp() in the condition could not bound.
WITH due AS MATERIALIZED (
    SELECT *
    FROM errand.schedules s
    WHERE s.next_at <= statement_timestamp() AND s.name <> ALL ($1::text::text[])
    ORDER BY s.next_at
    LIMIT $2::integer
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT
    CASE WHEN set_config('lock_timeout', '1s', true) <> ''
        THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint END,
    s.name, s.spec, s.zone, s.job::text, s.missed, s.grace, s.overlap, s.paused,
    (extract(epoch FROM s.next_at) * 1000000)::bigint,
    coalesce((extract(epoch FROM s.last_tick) * 1000000)::bigint, 0),
    coalesce(s.last_job, 0), s.skipped, s.version, coalesce(s.digest, ''), s.release, s.edited, s.deleted,
    (extract(epoch FROM s.updated_at) * 1000000)::bigint
FROM (
    SELECT due.*, sum(octet_length(job::text)) OVER (ORDER BY next_at, name) - octet_length(job::text) AS bytes_before
    FROM due
) AS s
WHERE s.bytes_before < $3::bigint
ORDER BY s.next_at, s.name;
