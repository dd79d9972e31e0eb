-- Returns those of the queues $1 that have ordered jobs which are pending.
-- Index: jobs_pending_idx.
SELECT q.queue FROM unnest($1::text::text[]) AS q (queue)
WHERE EXISTS (SELECT FROM errand.jobs j WHERE j.queue = q.queue AND j.status = 'pending' AND j.priority = 2147483647);
