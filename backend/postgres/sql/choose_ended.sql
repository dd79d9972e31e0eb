-- Lists the ids of the jobs of queue $1, kind $2, group $3 and key $4, each NULL for any, that have one of the statuses
-- $5, of which completed and failed count, each with false. It looks at the $7 jobs that follow id $6. If there are so
-- many, it also returns the last id that it has looked at, with true. Completed jobs have no index, because settling
-- would pay for it.
-- Index: jobs_pkey.
WITH slice AS MATERIALIZED (
    SELECT id, queue, kind, job_group, job_key, status FROM errand.jobs
    WHERE id > $6::bigint
    ORDER BY id
    LIMIT $7::integer
)
SELECT id, false
FROM slice
WHERE status IN ('completed', 'failed') AND status::text = ANY ($5::text::text[])
    AND ($1::text IS NULL OR queue = $1::text)
    AND ($2::text IS NULL OR kind = $2::text)
    AND ($3::text IS NULL OR job_group = $3::text)
    AND ($4::text IS NULL OR job_key = $4::text)
UNION ALL
SELECT max(id), true FROM slice HAVING count(*) = $7::integer;
