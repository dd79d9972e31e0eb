-- For how many seconds the oldest of the completed jobs, among the 1,000 lowest ids, and of the dead and the cancelled
-- jobs have ended. NULL for none.
-- Index: jobs_pkey, jobs_stopped_idx.
SELECT
    extract(epoch FROM clock_timestamp() - (
        SELECT min(f.updated_at) FROM (SELECT status, updated_at FROM errand.jobs ORDER BY id LIMIT 1000) AS f
        WHERE f.status = 'completed'))::float8,
    extract(epoch FROM clock_timestamp() - least(
        (SELECT updated_at FROM errand.jobs WHERE status = 'dead' ORDER BY updated_at, id LIMIT 1),
        (SELECT updated_at FROM errand.jobs WHERE status = 'cancelled' ORDER BY updated_at, id LIMIT 1)))::float8
