-- Returns all workers that have reported themselves and have not stopped, and how many microseconds ago they did so.
-- Index: none; the table is short.
SELECT worker, info, started_at, claimed_at, draining_at, seen_at,
    (extract(epoch FROM statement_timestamp() - seen_at) * 1000000)::bigint
FROM errand.workers
ORDER BY worker;
