-- Returns ids of jobs that have a status and have changed at $12 or later, 5,000 at most. The program replaces WHERE
-- true by WHERE status = '...', which is one of those of the index. It asks whether there are 5,000, and if not,
-- list.sql lists jobs with these ids.
-- Index: jobs_stopped_idx.
SELECT id
FROM errand.jobs
WHERE true
    AND updated_at >= $12::timestamptz
ORDER BY updated_at
LIMIT 5000;
