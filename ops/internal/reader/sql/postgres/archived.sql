-- How job $1 ended, if it is in the archive. The archive has no index.
SELECT status::text FROM errand.jobs_archive WHERE id = $1::bigint LIMIT 1
