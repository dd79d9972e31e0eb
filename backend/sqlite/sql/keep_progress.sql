-- Keeps the progress of jobs that worker ?3 holds with fence ?2. ?1 is a JSON array, whose elements are arrays of a
-- job's id and its progress; ?4 is now.
-- Index: errand_jobs_running.
INSERT INTO errand_results (job_id, progress, progress_at)
SELECT j.id, v.value ->> 1, ?4
FROM json_each(?1) AS v
CROSS JOIN errand_jobs AS j INDEXED BY errand_jobs_running
WHERE j.id = v.value ->> 0
    AND j.fence = ?2
    AND j.locked_by = ?3
    AND j.status = 'running'
ON CONFLICT (job_id) DO UPDATE SET progress = excluded.progress, progress_at = excluded.progress_at;
