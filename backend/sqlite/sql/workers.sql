-- Returns all workers that have reported themselves and have not stopped.
-- Index: none; the table is short.
SELECT worker, info, started_at, claimed_at, draining_at, seen_at FROM errand_workers ORDER BY worker;
