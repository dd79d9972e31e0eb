-- Counts the jobs of a sample: ?1 is a JSON array of ids, from each of which on ?2 ids are looked at.
-- Index: the ids are the table's own order.
SELECT j.queue, j.status, count(*)
FROM json_each(?1) AS s
CROSS JOIN errand_jobs AS j NOT INDEXED
WHERE j.id >= s.value AND j.id < s.value + ?2
GROUP BY j.queue, j.status;
