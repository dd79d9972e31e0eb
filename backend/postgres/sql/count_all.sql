-- Counts every job, where the table has at most $1 bytes; otherwise returns no rows: then count_sample.sql is asked.
SELECT queue, status::text, count(*), true
FROM errand.jobs
WHERE (SELECT pg_relation_size('errand.jobs') <= $1::bigint)
GROUP BY queue, status
ORDER BY queue, status;
