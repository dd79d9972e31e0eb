-- Reclaims at most $1 jobs whose lease has expired. A job that was claimed by the guide's own statement has no lease:
-- it is stale ten minutes after it was locked, as the guide says. A locked_until older than locked_at is left over from
-- an earlier claim.
-- A job whose last run also ended like this is left for up to half a lease longer, and from the fourth attempt on for
-- up to three leases; its id and fence determine how long. Otherwise a job that kills its process would be reclaimed
-- together with the jobs that ran beside it, claimed together with them and kill them again, until all are dead.
-- A job that its worker was asked to cancel is cancelled, with queue.ReclaimedCancelled as its error. An ordered job
-- that would be dead is held if the rule of its queue says so.
-- Times are compared with $2, in microseconds since 1970, if the clock is later: it has jumped. Leases that began at
-- one of the times $3 or before end later by that one of $4 microseconds. Those that began in the future count from $5,
-- or from now if the clock is earlier than $6: it has jumped back.
-- See package clockwatch. After the jobs it returns a row with the id 0 and, as its created_at, the clock.
-- Returns neither payloads nor headers. No time or number in a row makes it fail: one such row would keep all others
-- from being reclaimed. It wakes the sleeping workers of the queues that jobs return to. While it locks rows it waits
-- for a millisecond at most, as claim.sql does.
-- Index: jobs_running_idx, sleepers_pkey, rules_pkey.
WITH taken AS (
    UPDATE errand.jobs AS j
    SET
        (status, started_at, finished_at) = (
            SELECT
                o.status, CASE WHEN o.status IN ('cancelled', 'dead') THEN j.started_at END,
                CASE WHEN o.status IN ('cancelled', 'dead') THEN statement_timestamp() END
            FROM (
                SELECT CASE
                    WHEN j.cancel_at IS NOT NULL THEN 'cancelled'
                    WHEN j.attempts < j.max_attempts THEN 'pending'
                    WHEN j.ordered IS TRUE AND EXISTS (
                        SELECT FROM errand.rules r WHERE r.queue = j.queue AND r.job_group = '' AND r.hold_dead) THEN 'held'
                    ELSE 'dead' END::errand.job_status AS status
                OFFSET 0
            ) AS o
        ),
        last_error = CASE WHEN j.cancel_at IS NOT NULL THEN 'errand: cancelled, and the lease of its worker expired'
            ELSE 'errand: the lease of worker ' || coalesce(j.locked_by, '(none)') || ' expired' END,
        fence = CASE WHEN j.fence > 0 THEN -j.fence ELSE j.fence END, -- see claim.sql
        locked_at = NULL,
        locked_by = NULL,
        locked_until = NULL,
        updated_at = statement_timestamp(),
        history = jsonb_path_query_array(coalesce(j.history, '[]'), '$[last - 8 to last]')
            || jsonb_strip_nulls(jsonb_build_array(jsonb_build_object(
                'at', statement_timestamp(), 'attempt', j.attempts, 'redrives', j.redrives, 'worker', j.locked_by,
                'error', left('errand: the lease of worker ' || coalesce(j.locked_by, '(none)') || ' expired', 2048),
                'took_ns', (1e9 * extract(epoch FROM statement_timestamp()
                    - least(greatest(j.started_at, '1970-01-01Z'), statement_timestamp())))::bigint)))
    WHERE j.ctid = ANY ((
        SELECT CASE WHEN set_config('lock_timeout', locked.timeout, true) <> '' THEN locked.ctids END
        FROM (
            SELECT usual.timeout, CASE WHEN set_config('lock_timeout', '1ms', true) <> '' THEN ARRAY(
                SELECT r.ctid
                FROM errand.jobs r
                WHERE r.status = 'running'
                    AND CASE
                        WHEN r.locked_at > (SELECT statement_timestamp() + interval '1 minute') AND r.locked_at < '9999-12-31Z'
                            AND (r.locked_until < '9999-12-31Z' OR r.locked_until IS NULL)
                        THEN (SELECT CASE
                                WHEN statement_timestamp() < 'epoch'::timestamptz + $6::bigint * interval '1 microsecond'
                                THEN statement_timestamp() ELSE 'epoch'::timestamptz + $5::bigint * interval '1 microsecond' END)
                            + CASE WHEN r.locked_until > r.locked_at THEN r.locked_until - r.locked_at
                                ELSE interval '10 minutes' END
                        WHEN r.locked_until > r.locked_at THEN r.locked_until
                        ELSE least(r.locked_at, '9999-12-31Z') + interval '10 minutes'
                    END
                        < (SELECT least(statement_timestamp(), 'epoch'::timestamptz + $2::bigint * interval '1 microsecond'))
                    AND CASE WHEN $3::text = '{}' OR r.locked_at > statement_timestamp() THEN true ELSE
                        CASE WHEN r.locked_until > r.locked_at THEN r.locked_until
                            ELSE least(r.locked_at, '9999-12-31Z') + interval '10 minutes' END
                        < (SELECT least(statement_timestamp(), 'epoch'::timestamptz + $2::bigint * interval '1 microsecond')) - (
                            SELECT coalesce(sum(jump.size), 0)::float8 * interval '1 microsecond'
                            FROM unnest($3::text::bigint[], $4::text::bigint[]) AS jump (up_to, size)
                            WHERE r.locked_at <= 'epoch'::timestamptz + jump.up_to * interval '1 microsecond') END
                    AND CASE
                        WHEN r.locked_until > r.locked_at AND r.locked_at > '1970-01-01Z'
                            AND r.locked_at < statement_timestamp() AND r.locked_until < '9999-12-31Z'
                            AND r.attempts >= 2 AND r.attempts < r.max_attempts AND r.cancel_at IS NULL
                            AND r.last_error LIKE 'errand: the lease of %'
                        THEN r.locked_until + (r.locked_until - r.locked_at)
                            * CASE WHEN r.attempts < 4 THEN 0.5 ELSE 3 END
                            * ((r.id % 1009 + r.fence % 1009 * 31) * 7919 % 1009 / 1009.0)
                        ELSE '-infinity'
                    END < statement_timestamp()
                ORDER BY r.locked_at
                LIMIT $1::integer
                FOR UPDATE SKIP LOCKED
            ) END AS ctids
            FROM (SELECT current_setting('lock_timeout') AS timeout OFFSET 0) AS usual
            OFFSET 0
        ) AS locked
    )::tid[])
    RETURNING
        j.id, j.queue, j.kind, j.priority, j.scheduled_at, j.attempts, j.max_attempts, j.fence, j.created_at, j.job_key,
        j.last_error, j.job_group, j.status
), woken AS (
    SELECT pg_notify('errand', back.queue)
    FROM (SELECT DISTINCT queue FROM taken WHERE status = 'pending') AS back
    WHERE EXISTS (SELECT FROM errand.sleepers s WHERE s.queue = back.queue
        AND s.since > statement_timestamp() - interval '1 minute')
)
SELECT
    t.id, t.queue, t.kind, NULL, t.priority, least(greatest(t.scheduled_at, '1970-01-01Z'), '9999-12-31Z'),
    t.attempts, t.max_attempts, t.fence, least(greatest(t.created_at, '1970-01-01Z'), '9999-12-31Z'),
    coalesce(t.job_key, ''), NULL, coalesce(t.last_error, ''), coalesce(t.job_group, '')
FROM taken AS t
WHERE (SELECT count(*) FROM woken) >= 0
UNION ALL
SELECT 0, '', '', NULL, 0, statement_timestamp(), 0, 0, 0, statement_timestamp(), '', NULL, '', '';
