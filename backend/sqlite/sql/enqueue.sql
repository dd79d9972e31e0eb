-- Writes jobs that have no keys. ?1 is the JSON array of the jobs, each an array of its fields; ?2 is now.
-- Rows get their ids in the order of the array, without a gap. The last id is the connection's
-- last_insert_rowid.
-- Index: none.
INSERT INTO errand_jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_group, created_at, updated_at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 8, ?2, ?2
FROM json_each(?1);
