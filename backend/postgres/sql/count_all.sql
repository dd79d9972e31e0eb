-- Counts every job if the table has at most $1 bytes. Otherwise it returns no rows, and count_sample.sql is run.
SELECT queue, status::text, count(*), true
FROM errand.jobs
WHERE (SELECT pg_relation_size('errand.jobs') <= $1::bigint)
GROUP BY queue, status
ORDER BY queue, status;
