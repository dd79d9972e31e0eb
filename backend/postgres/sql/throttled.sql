-- Returns queue, group and delay of the jobs that throttle and that their workers hold: $1 ids, $2 fences, $3 workers
-- and $4 delays in nanoseconds. A job that the caller does not hold throttles nothing. OFFSET 0 makes the planner look
-- each job up by its id.
-- Index: jobs_pkey.
SELECT j.queue, coalesce(j.job_group, ''), n.delay
FROM unnest((SELECT $1::text::bigint[]), (SELECT $2::text::bigint[]), (SELECT $3::text::text[]), (SELECT $4::text::bigint[]))
    AS n (id, fence, worker, delay)
CROSS JOIN LATERAL (
    SELECT queue, job_group FROM errand.jobs
    WHERE id = n.id
        AND fence = n.fence
        AND locked_by = n.worker
        AND status BETWEEN 'running' AND 'running'
    OFFSET 0
) AS j;
