-- Moves schedules on whose tick was fired. $1 is a JSON array of their new states, was the tick. The version and the
-- tick are those that schedule_due.sql has locked. Returns the names.
-- Index: schedules_pkey.
UPDATE errand.schedules s
SET next_at = 'epoch'::timestamptz + nullif(v.next_at, 0) * interval '1 microsecond',
    last_tick = 'epoch'::timestamptz + nullif(v.last_tick, 0) * interval '1 microsecond',
    last_job = nullif(v.last_job, 0),
    skipped = v.skipped
FROM jsonb_to_recordset($1::text::jsonb) AS v (
    name text, version bigint, was bigint, next_at bigint, last_tick bigint, last_job bigint, skipped bigint)
WHERE s.name = v.name AND s.version = v.version
    AND s.next_at = 'epoch'::timestamptz + v.was * interval '1 microsecond'
RETURNING s.name;
