-- Ordered jobs: of each group one job at a time, in the order of ids. They have a group, and the priority 2147483647,
-- which no other job has.

-- Serves claims, which look for the first job of each group. The id, with which every index ends, orders a group.
CREATE INDEX errand_jobs_ordered ON errand_jobs (queue, job_group)
    WHERE priority = 2147483647 AND job_group IS NOT NULL AND status IN ('pending', 'held');
-- Allows one running job a group.
CREATE UNIQUE INDEX errand_jobs_ordered_one ON errand_jobs (queue, job_group)
    WHERE priority = 2147483647 AND job_group IS NOT NULL AND status = 'running';
