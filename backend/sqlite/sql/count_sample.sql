-- Counts the jobs of a sample. ?1 is a JSON array of ids. From each of them on, the statement reads ?2 ids. It
-- looks each id up by itself: with the statistics of a short table, SQLite would use only the beginning of a
-- range of ids.
-- Index: the ids are the table's own order.
WITH RECURSIVE run (step) AS (
    SELECT 0
    UNION ALL
    SELECT step + 1 FROM run WHERE step + 1 < ?2
)
SELECT j.queue, j.status, count(*)
FROM json_each(?1) AS s
CROSS JOIN run
CROSS JOIN errand_jobs AS j NOT INDEXED
WHERE j.id = s.value + run.step
GROUP BY j.queue, j.status;
