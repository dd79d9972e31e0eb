-- Removes a few keys whose windows are over at ?1. It follows each key that is written, so the table cannot grow by
-- keys that are over.
-- Index: errand_dedup_until_idx, the primary key.
DELETE FROM errand_dedup
WHERE key IN (SELECT key FROM errand_dedup WHERE until <= ?1 ORDER BY until LIMIT 3);
