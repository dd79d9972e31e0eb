-- Writes jobs without keys that differ in their payloads only. ?3 is the JSON array of the payloads, each a
-- string; ?8 is now, and the other parameters are the fields that the jobs share. Rows get their ids in the
-- order of the array, without a gap. The last id is the last row id of the connection.
-- Index: none.
INSERT INTO errand_jobs (queue, kind, payload, priority, scheduled_at, max_attempts, headers, job_group, created_at, updated_at)
SELECT ?1, ?2, value, ?4, ?5, ?6, ?7, ?9, ?8, ?8
FROM json_each(?3);
