-- Copies jobs to the archive, before prune.sql removes them. ?1 is the JSON array of their ids. It
-- copies only jobs that were completed by ?2, or dead or cancelled by ?3. A job that somebody has put
-- back from the archive is there already: its newer row stays.
-- Index: the ids are the table's own order.
INSERT OR REPLACE INTO errand_jobs_archive (
    id, queue, status, priority, scheduled_at, attempts, max_attempts, fence, locked_at, locked_until, locked_by,
    created_at, updated_at, kind, job_key, last_error, headers, payload, started_at, finished_at, redriven_at, redrives,
    job_group, cancel_at, history, cost
)
SELECT
    j.id, j.queue, j.status, j.priority, j.scheduled_at, j.attempts, j.max_attempts, j.fence,
    j.locked_at, j.locked_until, j.locked_by,
    j.created_at, j.updated_at, j.kind, j.job_key, j.last_error, j.headers, j.payload,
    j.started_at, j.finished_at, j.redriven_at, j.redrives, j.job_group, j.cancel_at, j.history, j.cost
FROM json_each(?1) AS wanted
CROSS JOIN errand_jobs AS j NOT INDEXED
WHERE j.id = wanted.value
    AND (j.status = 'completed' AND j.updated_at <= ?2 OR j.status IN ('dead', 'cancelled') AND j.updated_at <= ?3);
