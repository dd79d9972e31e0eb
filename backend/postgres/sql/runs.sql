-- Returns the jobs that the workers $1 hold, or all workers if it is NULL, with the times of their claims, and how many
-- microseconds ago those were: at most $2 of each worker, the ones that were claimed first. When a run began is as in
-- sqlkit.RunTimes. It reads all running jobs.
-- Index: jobs_running_idx.
SELECT worker, id, queue, kind, attempts, since, (extract(epoch FROM statement_timestamp() - since) * 1000000)::bigint
FROM (
    SELECT
        r.*, row_number() OVER (PARTITION BY r.worker ORDER BY r.since, r.id) AS place
    FROM (
        SELECT
            coalesce(locked_by, '') COLLATE "C" AS worker, id, queue, kind, attempts,
            least(greatest(CASE WHEN locked_until > locked_at AND started_at IS NOT NULL THEN started_at ELSE updated_at END,
                '1970-01-01Z'), '9999-12-31Z') AS since
        FROM errand.jobs
        WHERE status = 'running' AND ($1::text IS NULL OR locked_by = ANY ($1::text::text[]))
    ) AS r
) AS p
WHERE place <= $2::integer
ORDER BY worker, since, id;
