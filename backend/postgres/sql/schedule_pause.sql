-- Writes the pauses of schedules. $1, $2 and the result are those of schedule_write.sql. It neither reads nor writes
-- what a schedule enqueues, so a role without a right to that can pause.
-- Index: schedules_pkey, sleepers_pkey.
WITH v AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS v (
        was bigint, was_next bigint, name text, paused boolean, next_at bigint, version bigint, edited boolean,
        updated_at bigint)
), held AS MATERIALIZED (
    SELECT s.name
    FROM errand.schedules s JOIN v ON v.name = s.name
    WHERE s.version = v.was
        AND s.next_at IS NOT DISTINCT FROM 'epoch'::timestamptz + nullif(v.was_next, 0) * interval '1 microsecond'
    ORDER BY s.name
    FOR UPDATE OF s
), updated AS (
    UPDATE errand.schedules s
    SET paused = v.paused, next_at = 'epoch'::timestamptz + nullif(v.next_at, 0) * interval '1 microsecond',
        version = v.version, edited = v.edited,
        updated_at = 'epoch'::timestamptz + v.updated_at * interval '1 microsecond'
    FROM v
    WHERE s.name = v.name AND s.name IN (SELECT name FROM held)
    RETURNING s.name
), woken AS MATERIALIZED (
    SELECT count(pg_notify('errand', q.queue)::text) AS queues
    FROM (SELECT '' AS queue UNION
        SELECT s.queue FROM errand.sleepers s WHERE s.since > statement_timestamp() - interval '1 minute') AS q
    WHERE $2::boolean
)
SELECT updated.name, (SELECT queues FROM woken)
FROM updated;
