-- Lists jobs of one status that has an index, newest first: $1 queue, $2 kind, $3 key, each NULL for any, with ids
-- up to $4, $5 at most, only those whose lease has expired if $6, only those that have been running for $7
-- microseconds unless $7 is NULL, of group $8 unless it is NULL, with $9 attempts at least unless it is NULL, created
-- from $10 on and before $11, finished from $12 on and before $13, each NULL for no bound, with payloads and headers if
-- $14. When a job has finished is as in sqlkit.RunTimes, and never after updated_at, which the index has. A lease has
-- expired where reclaim.sql says so. When a run began is as in sqlkit.RunTimes. The program replaces AND true by
-- AND status = '...': only a literal lets the planner use the partial indexes, which matters if few jobs of many have
-- the status. For running jobs it orders by id + 0, which keeps the planner from looking for them along jobs_pkey. For
-- dead, held and cancelled jobs, it adds the ids of stopped_ids.sql; unless $12 is set and chooses few of them,
-- list_slice.sql lists them. Times before 1970 and after 9999, such as -infinity and infinity, are shown as those
-- years, because drivers cannot read them.
-- Index: jobs_stopped_idx, jobs_pending_idx, jobs_running_idx.
SELECT
    id, queue, kind, CASE WHEN $14::boolean THEN payload END, priority,
    least(greatest(scheduled_at, '1970-01-01Z'), '9999-12-31Z'), attempts, max_attempts,
    greatest(fence, 0), least(greatest(created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(job_key, ''),
    CASE WHEN $14::boolean THEN headers END, coalesce(left(last_error, 8192), ''), coalesce(job_group, ''),
    coalesce(locked_by, ''), status::text,
    CASE WHEN locked_at IS NOT NULL THEN least(greatest(locked_at, '1970-01-01Z'), '9999-12-31Z') END,
    CASE WHEN locked_until IS NOT NULL THEN least(greatest(locked_until, '1970-01-01Z'), '9999-12-31Z') END,
    least(greatest(updated_at, '1970-01-01Z'), '9999-12-31Z'),
    CASE WHEN started_at IS NOT NULL THEN least(greatest(started_at, '1970-01-01Z'), '9999-12-31Z') END,
    CASE WHEN finished_at IS NOT NULL THEN least(greatest(finished_at, '1970-01-01Z'), '9999-12-31Z') END,
    CASE WHEN redriven_at IS NOT NULL THEN least(greatest(redriven_at, '1970-01-01Z'), '9999-12-31Z') END,
    coalesce(redrives, 0),
    CASE WHEN cancel_at IS NOT NULL THEN least(greatest(cancel_at, '1970-01-01Z'), '9999-12-31Z') END,
    NULL::jsonb, coalesce(cost, 0)
FROM errand.jobs
WHERE ($1::text IS NULL OR queue = $1::text)
    AND ($2::text IS NULL OR kind = $2::text)
    AND true
    AND ($3::text IS NULL OR job_key = $3::text)
    AND ($8::text IS NULL OR job_group = $8::text)
    AND ($9::integer IS NULL OR attempts >= $9::integer)
    AND (NOT $6::boolean
        OR CASE WHEN locked_until > locked_at THEN locked_until
            ELSE least(locked_at, '9999-12-31Z') + interval '10 minutes' END < statement_timestamp())
    AND id <= $4::bigint
    AND ($7::bigint IS NULL
        OR CASE WHEN locked_until > locked_at AND started_at IS NOT NULL THEN started_at ELSE updated_at END
            <= statement_timestamp() - $7::bigint * interval '1 microsecond')
    AND ($10::timestamptz IS NULL OR created_at >= $10::timestamptz)
    AND ($11::timestamptz IS NULL OR created_at < $11::timestamptz)
    AND updated_at >= coalesce($12::timestamptz, '-infinity')
    AND ($12::timestamptz IS NULL
        OR CASE WHEN finished_at BETWEEN scheduled_at AND updated_at THEN finished_at ELSE updated_at END >= $12::timestamptz)
    AND ($13::timestamptz IS NULL
        OR CASE WHEN finished_at BETWEEN scheduled_at AND updated_at THEN finished_at ELSE updated_at END < $13::timestamptz)
ORDER BY id DESC
LIMIT $5::integer;
