-- Keeps outputs. ?1 is a JSON array, whose elements are arrays of a job's id and its output.
-- Index: the ids are the table's own order.
INSERT INTO errand_results (job_id, output)
SELECT value ->> 0, value ->> 1
FROM json_each(?1)
WHERE true -- without a WHERE, SQLite would read ON as part of a join
ON CONFLICT (job_id) DO UPDATE SET output = excluded.output;
