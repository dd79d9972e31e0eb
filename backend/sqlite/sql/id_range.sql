-- Returns the lowest and the highest id, or NULL.
-- Index: the ids are the table's own order.
SELECT (SELECT min(id) FROM errand_jobs), (SELECT max(id) FROM errand_jobs);
