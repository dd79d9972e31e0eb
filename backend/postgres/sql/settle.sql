-- Records outcomes: $1 ids in ascending order and $2 fences of jobs that are done; $3 ids and $4 fences of all others,
-- whose outcomes are in $5, a JSON object by id, as [action, delay in microseconds, error] and, after a
-- panic, the top of its stack; $6 worker; $7 whether done
-- jobs are kept; $8 whether to wake sleeping workers of the queues that jobs return to; $9 whether to wait
-- for a lock for half a second at most, which is less than the usual deadlock_timeout. Returns the ids of lost jobs. A
-- job that is released without a delay keeps its place. Of the failures in a job's history, the last nine stay beside
-- the new one; lax mode reads any JSON as an array.
-- A job that is to be cancelled does not return to its queue, and is not held. An ordered job that would be dead is
-- held if the rule of its queue says so.
-- Only this statement and insert_replacing wait for a locked row. Handlers of the same worker lock such a row, and
-- calls that replace its key. The other statements skip locked rows, so none deadlocks with these. Rows are locked in
-- the order of their ids before any is changed. Otherwise two calls that settle the same jobs would deadlock, if one
-- says that a job is done and the other that it failed.
-- Nothing is joined: a join with the ids could be planned the wrong way round, so a binary search for the id finds a
-- row's fence. (SELECT $1…) is evaluated once, and the planner does not know its length, so the plan is the same for
-- every length. status BETWEEN with one value keeps the planner from reading jobs_running_idx and filtering it by every
-- id.
-- Index: jobs_pkey, sleepers_pkey, rules_pkey.
WITH locked AS MATERIALIZED (
    SELECT id FROM errand.jobs
    WHERE (SELECT CASE WHEN $9::boolean THEN set_config('lock_timeout', '500ms', true) ELSE '' END) <> '0'
        AND id = ANY ((SELECT $1::text::bigint[] || $3::text::bigint[])::bigint[])
        AND fence IN (
            (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))],
            (SELECT $4::text::bigint[])[width_bucket(id, (SELECT $3::text::bigint[]))])
        AND locked_by = $6::text
        AND status BETWEEN 'running' AND 'running'
    ORDER BY id
    FOR NO KEY UPDATE
), kept AS (
    UPDATE errand.jobs
    SET
        status = 'completed', locked_at = NULL, locked_until = NULL,
        updated_at = statement_timestamp(), finished_at = statement_timestamp()
    WHERE $7::boolean
        AND (SELECT count(*) FROM locked) >= 0
        AND id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
        AND locked_by = $6::text
        AND status BETWEEN 'running' AND 'running'
    RETURNING id
), dropped AS (
    DELETE FROM errand.jobs
    WHERE NOT $7::boolean
        AND (SELECT count(*) FROM locked) >= 0
        AND id = ANY ((SELECT $1::text::bigint[])::bigint[])
        AND fence = (SELECT $2::text::bigint[])[width_bucket(id, (SELECT $1::text::bigint[]))]
        AND locked_by = $6::text
        AND status BETWEEN 'running' AND 'running'
    RETURNING id
), other AS (
    UPDATE errand.jobs AS j
    SET (
        status, attempts, scheduled_at, last_error, locked_at, locked_by, locked_until, fence, updated_at,
        started_at, finished_at, history, cancel_at
    ) = (
        SELECT
            CASE WHEN o.cancelled THEN 'cancelled' WHEN o.held THEN 'held' WHEN o.dead THEN 'dead'
                ELSE 'pending' END::errand.job_status,
            CASE WHEN o.action = 'release' THEN greatest(j.attempts, 1) - 1 ELSE j.attempts END,
            CASE WHEN o.dead OR o.cancelled OR o.action = 'release' AND o.delay = 0 THEN j.scheduled_at
                ELSE statement_timestamp() + o.delay * interval '1 microsecond' END,
            CASE WHEN o.action = 'release' THEN j.last_error ELSE o.error END,
            NULL::timestamptz, NULL::text, NULL::timestamptz, -j.fence, statement_timestamp(),
            CASE WHEN o.dead AND NOT o.held OR o.cancelled THEN j.started_at END,
            CASE WHEN o.dead AND NOT o.held OR o.cancelled THEN statement_timestamp() END,
            CASE WHEN o.action = 'release' THEN j.history
                ELSE jsonb_path_query_array(coalesce(j.history, '[]'), '$[last - 8 to last]')
                    || jsonb_strip_nulls(jsonb_build_array(jsonb_build_object(
                        'at', statement_timestamp(), 'attempt', j.attempts, 'redrives', j.redrives, 'worker', j.locked_by,
                        'error', left(o.error, 2048), 'stack', left(o.stack, 2048),
                        'took_ns', (1e9 * extract(epoch FROM statement_timestamp()
                            - least(greatest(j.started_at, '1970-01-01Z'), statement_timestamp())))::bigint))) END,
            CASE WHEN o.cancelled THEN coalesce(j.cancel_at, statement_timestamp()) END
        FROM (
            SELECT
                v.action, v.delay, v.error, v.stack,
                v.action = 'cancel' OR v.action <> 'dead' AND j.cancel_at IS NOT NULL AS cancelled,
                v.action = 'dead' OR v.action = 'retry' AND j.attempts >= j.max_attempts AS dead,
                j.ordered IS TRUE AND (v.action = 'dead' OR v.action = 'retry' AND j.attempts >= j.max_attempts)
                    AND j.cancel_at IS NULL AND EXISTS (
                        SELECT FROM errand.rules r WHERE r.queue = j.queue AND r.job_group = '' AND r.hold_dead
                    ) AS held
            FROM (
                SELECT doc ->> 0 AS action, (doc ->> 1)::bigint AS delay, doc ->> 2 AS error, doc ->> 3 AS stack
                FROM (SELECT (SELECT $5::text::jsonb) -> j.id::text AS doc) AS d
            ) AS v
        ) AS o
    )
    WHERE (SELECT count(*) FROM locked) >= 0
        AND j.id = ANY ((SELECT $3::text::bigint[])::bigint[])
        AND j.fence = (SELECT $4::text::bigint[])[width_bucket(j.id, (SELECT $3::text::bigint[]))]
        AND j.locked_by = $6::text
        AND j.status BETWEEN 'running' AND 'running'
    RETURNING j.id, CASE WHEN $8::boolean AND j.status = 'pending' AND j.queue IN (
        SELECT s.queue FROM errand.sleepers s WHERE s.since > statement_timestamp() - interval '1 minute')
        THEN pg_notify('errand', j.queue)::text END
)
SELECT want.id FROM unnest((SELECT $1::text::bigint[] || $3::text::bigint[])) AS want (id)
EXCEPT
(SELECT id FROM kept UNION ALL SELECT id FROM dropped UNION ALL SELECT id FROM other);
