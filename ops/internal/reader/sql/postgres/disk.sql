-- Writes a temporary file of a megabyte, if work_mem is small. If the server's disk is full, it fails with 53100.
WITH text AS MATERIALIZED (SELECT repeat('x', 1000) || n AS t FROM generate_series(1, 1100) AS g (n))
SELECT count(t) FROM text
