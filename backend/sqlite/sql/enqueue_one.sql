-- Writes one job that has no key: ?9 is now, and the other parameters are its fields. Its id is the last row id of
-- the connection.
-- Index: none.
INSERT INTO errand_jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8);
