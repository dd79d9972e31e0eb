-- Returns the ids and costs of those of the jobs in the JSON array ?1 that cost more than 1.
-- Index: the table's own order.
SELECT j.id, j.cost
FROM json_each(?1) AS v
CROSS JOIN errand_jobs AS j NOT INDEXED
WHERE j.id = v.value AND j.cost > 1;
