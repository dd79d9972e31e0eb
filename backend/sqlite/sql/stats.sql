-- Returns the statistics of queue ?1 and kind ?2, NULL for any, of minutes from ?3 and before ?4.
-- Index: the primary key.
SELECT minute, queue, kind, done, failed, dead, lost, ran, waited, run_times, wait_times
FROM errand_stats
WHERE minute >= ?3 AND minute < ?4 AND (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR kind = ?2);
