-- Gives a worker the jobs with the ids in the JSON array ?1, which the same transaction has found pending: ?2 is the fence, ?3 now, ?4 the
-- end of the lease, ?5 the worker. No row is inserted, since each is there: a conflict is the one way to change rows by their ids that
-- leaves SQLite no choice, see errand_jobs_running in migrations/0001_jobs.sql.
-- Index: the ids are the table's own order.
INSERT INTO errand_jobs (id, scheduled_at, created_at, updated_at)
SELECT value, 0, 0, 0
FROM json_each(?1)
WHERE true
ON CONFLICT (id) DO UPDATE
SET
    status = 'running',
    attempts = min(attempts, 2147483646) + 1, -- SQLite stores what is beyond an integer as REAL, which the column refuses
    fence = ?2,
    locked_at = ?3,
    locked_until = ?4,
    locked_by = ?5,
    updated_at = ?3;
