-- Writes one job that has no key: ?8 is now, and the other parameters are its fields. Its id is the last row id of
-- the connection.
-- Index: none.
INSERT INTO errand_jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_group, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?9, ?8, ?8);
