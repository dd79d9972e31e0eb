-- Adds a schedule, or changes it if its version and its tick are still ?16 and ?17.
-- Index: the primary key.
INSERT INTO errand_schedules (
    name, spec, zone, job, missed, grace, overlap, paused, next_at, last_tick, last_job, skipped, version, digest,
    release, edited, deleted, updated_at
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, nullif(?9, 0), NULL, NULL, 0, ?10, nullif(?11, ''), ?12, ?13, ?14, ?15
WHERE ?16 = 0 OR EXISTS (SELECT 1 FROM errand_schedules WHERE name = ?1)
ON CONFLICT (name) DO UPDATE SET
    spec = excluded.spec, zone = excluded.zone, job = excluded.job, missed = excluded.missed, grace = excluded.grace,
    overlap = excluded.overlap, paused = excluded.paused, next_at = excluded.next_at, version = excluded.version,
    digest = excluded.digest, release = excluded.release, edited = excluded.edited, deleted = excluded.deleted,
    updated_at = excluded.updated_at
WHERE version = ?16 AND coalesce(next_at, 0) = ?17;
