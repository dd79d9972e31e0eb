-- Removes statistics that are older than two days (queue.StatsKept), at most 10,000 rows. It never waits for a lock.
-- Index: stats_pkey.
DELETE FROM errand.stats
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM errand.stats
    WHERE minute < statement_timestamp() - interval '48 hours'
    ORDER BY minute, queue, kind LIMIT 10000 FOR UPDATE SKIP LOCKED
));
