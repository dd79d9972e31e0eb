-- Claims due jobs: $1 queues in priority order, $2 kinds or NULL for all, $3 limit, $4 lease in microseconds, $5
-- worker. A queue may occur several times in $1, once for each span of it: $6, $7 and $8 are the priority, due time
-- and id behind which a span begins (the lowest of all for the queue's head), $10 is its last priority, and $11 its
-- last due time. If $12, jobs that became due two seconds ago and since may be claimed before thousands of other kinds
-- are read; the claim is empty only if no job is due. $13 is
-- the version of the rules that the caller knows: if there is a later one, the queues may be limited by now, and the
-- statement fails.
-- lock_due (migrations/0003_claim.sql) finds the jobs and locks them. It runs once, and only rows that are returned
-- get locked. ctid is safe, because this statement has locked the rows: one that moved before that is not returned.
-- lock_timeout is a millisecond while rows are being locked, and not when they are changed, because that may have to
-- wait while another transaction makes the table longer.
-- The fence is above each that an earlier claim of the job has drawn, also if the sequence was set back: whatever takes
-- a job from its holder makes its fence negative (migrations/0016_sequences.sql).
-- No time or number in a row makes the statement fail. Times before 1970 and after 9999, such as -infinity, are
-- returned as those years, because drivers cannot read them. Payloads and headers may be long, or impossible to print.
-- They are returned only if they take at most $9 bytes in the table; payload.sql reads the others one by one. Adding up
-- their lengths as text would make the statement an eighth slower.
UPDATE errand.jobs AS j
SET
    status = 'running',
    attempts = least(j.attempts, 1999999999) + 1,
    fence = greatest((SELECT nextval('errand.fences')),
        least(abs(greatest(j.fence, -9223372036854775806)), 9223372036854775806) + 1),
    locked_at = statement_timestamp(),
    locked_by = $5::text,
    locked_until = statement_timestamp() + $4::bigint * interval '1 microsecond',
    updated_at = statement_timestamp(),
    started_at = statement_timestamp(),
    finished_at = NULL
WHERE j.ctid = ANY ((
    SELECT CASE WHEN (SELECT v.version FROM errand.rules_version v) = $13::bigint THEN errand.lock_due(
        $1::text::text[], $2::text::text[], $3::integer, '1ms',
        $6::text::integer[], $7::text::timestamptz[], $8::text::bigint[],
        $10::text::integer[], $11::text::timestamptz[], $12::boolean)
    ELSE errand.rules_changed() END
)::tid[])
RETURNING
    j.id, j.queue, j.kind,
    CASE WHEN pg_column_size(j.payload) <= $9::bigint AND coalesce(pg_column_size(j.headers) <= $9::bigint, true)
        THEN j.payload END,
    j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts, j.fence,
    least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), j.job_key,
    CASE WHEN pg_column_size(j.headers) <= $9::bigint THEN j.headers END, left(j.last_error, 8192),
    j.job_group;
