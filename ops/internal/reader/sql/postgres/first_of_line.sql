-- The first live ordered job of group $2 of queue $1: the one that runs, or else the one with the lowest id.
-- Index: jobs_ordered_one_idx, jobs_ordered_idx.
SELECT coalesce(
    (
        SELECT id FROM errand.jobs
        WHERE queue = $1::text AND job_group = $2::text AND ordered AND status = 'running' LIMIT 1
    ),
    (
        SELECT id FROM errand.jobs
        WHERE queue = $1::text AND job_group = $2::text AND ordered AND status IN ('pending', 'held')
        ORDER BY id LIMIT 1
    ), 0)
