-- Writes changed schedules. $1 is a JSON array of their new states. was and was_next are the version and the tick that
-- the change began with: 0 if there was no schedule, or no tick. gone says that the row is to be deleted. A schedule
-- that has changed meanwhile is left as it is. Returns the names of those that were written. With $2 it wakes all
-- sleeping workers, which then learn of the next tick, and tells the other processes by the queue '' to ask for it.
-- Index: schedules_pkey, sleepers_pkey.
WITH v AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS v (
        was bigint, was_next bigint, gone boolean,
        name text, spec text, zone text, job jsonb, missed text, grace bigint, overlap boolean, paused boolean,
        next_at bigint, last_tick bigint, last_job bigint, skipped bigint, version bigint, digest text,
        release bigint, edited boolean, deleted boolean, updated_at bigint)
), held AS MATERIALIZED (
    SELECT s.name
    FROM errand.schedules s JOIN v ON v.name = s.name
    WHERE s.version = v.was
        AND s.next_at IS NOT DISTINCT FROM 'epoch'::timestamptz + nullif(v.was_next, 0) * interval '1 microsecond'
    ORDER BY s.name
    FOR UPDATE OF s
), updated AS (
    UPDATE errand.schedules s
    SET spec = v.spec, zone = v.zone, job = v.job, missed = v.missed, grace = v.grace, overlap = v.overlap,
        paused = v.paused, next_at = 'epoch'::timestamptz + nullif(v.next_at, 0) * interval '1 microsecond',
        version = v.version, digest = nullif(v.digest, ''), release = v.release, edited = v.edited,
        deleted = v.deleted, updated_at = 'epoch'::timestamptz + v.updated_at * interval '1 microsecond'
    FROM v
    WHERE s.name = v.name AND NOT v.gone AND s.name IN (SELECT name FROM held)
    RETURNING s.name
), removed AS (
    DELETE FROM errand.schedules s
    USING v
    WHERE s.name = v.name AND v.gone AND s.name IN (SELECT name FROM held)
    RETURNING s.name
), added AS (
    INSERT INTO errand.schedules (
        name, spec, zone, job, missed, grace, overlap, paused, next_at, version, digest, release, edited, deleted,
        updated_at)
    SELECT
        v.name, v.spec, v.zone, v.job, v.missed, v.grace, v.overlap, v.paused,
        'epoch'::timestamptz + nullif(v.next_at, 0) * interval '1 microsecond', v.version, nullif(v.digest, ''),
        v.release, v.edited, v.deleted, 'epoch'::timestamptz + v.updated_at * interval '1 microsecond'
    FROM v
    WHERE v.was = 0
    ORDER BY v.name
    ON CONFLICT (name) DO NOTHING
    RETURNING name
), woken AS MATERIALIZED (
    SELECT count(pg_notify('errand', q.queue)::text) AS queues
    FROM (SELECT '' AS queue UNION
        SELECT s.queue FROM errand.sleepers s WHERE s.since > statement_timestamp() - interval '1 minute') AS q
    WHERE $2::boolean
)
SELECT w.name, (SELECT queues FROM woken)
FROM (SELECT name FROM updated UNION ALL SELECT name FROM removed UNION ALL SELECT name FROM added) AS w;
