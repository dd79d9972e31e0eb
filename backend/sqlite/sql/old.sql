-- Reads the ?2 jobs that follow id ?1, in their order. There is no index for this, because settling would
-- have to maintain it.
-- Index: the ids are the table's own order.
SELECT id, status, created_at, updated_at
FROM errand_jobs NOT INDEXED
WHERE id > ?1
ORDER BY id
LIMIT ?2 + 0;
