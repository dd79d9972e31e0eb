-- Ordered jobs: of each group one job at a time, in the order of ids. Their priority is 2147483647, which no other job
-- has. So they are behind all others in jobs_pending_idx, where no other claim reads them.

-- lock_ordered locks the first jobs of groups that are due, at most max_jobs, and returns their places. The first job of
-- a group is the one with the lowest id. It is passed over if it is held, not due, of other kinds, or locked, if a
-- job of the group runs, or if a rule pauses the group. A job that commits late, or is redriven, may come first while one with a higher id runs.
-- The turns begin behind after_group, in the order of the groups' names, and end where they began. It passes over a
-- thousand groups at most. last_group is the last group that it has looked at, visited how many they were, and has_more
-- tells that there are others.
-- Calls for a queue go one at a time: each waits for the advisory lock, and then looks with snapshots of its own, which
-- show what the call before has taken. row_lock_timeout is the lock_timeout while rows are being locked.
-- The settings make every plan read the indexes in their order, whatever the statistics say.
-- Index: jobs_ordered_idx, jobs_ordered_one_idx.
CREATE FUNCTION errand.lock_ordered(
    queue_name       text,
    kinds            text[],
    max_jobs         integer,
    after_group      text,
    row_lock_timeout text,
    OUT places     tid[],
    OUT last_group text,
    OUT visited    integer,
    OUT has_more   boolean
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    usual_timeout CONSTANT text := current_setting('lock_timeout');
    first_group text := after_group; -- the walk begins behind it
    final_group text := NULL;        -- and ends with it; NULL for the last
    passed_over integer := 0;
    walk        record;
BEGIN
    PERFORM set_config('lock_timeout', '1s', true);
    PERFORM pg_advisory_xact_lock('errand.jobs_ordered_one_idx'::regclass::integer, hashtext(queue_name));
    PERFORM set_config('lock_timeout', row_lock_timeout, true);
    places := '{}';
    last_group := after_group;
    visited := 0;
    LOOP
        WITH RECURSIVE heads (job_group, place, is_due, nth, found) AS (
            SELECT first_group COLLATE "C", NULL::tid, false, 0, 0
            UNION ALL
            SELECT n.job_group, n.place, n.is_due, h.nth + 1, h.found + n.is_due::integer
            FROM heads h
            CROSS JOIN LATERAL (
                SELECT
                    p.job_group, p.ctid AS place,
                    p.status = 'pending' AND p.scheduled_at <= clock_timestamp() AND (kinds IS NULL OR p.kind = ANY (kinds))
                        AND (final_group IS NULL OR p.job_group <= final_group)
                        AND NOT EXISTS (
                            SELECT FROM errand.jobs r
                            WHERE r.queue = queue_name AND r.job_group = p.job_group AND r.ordered AND r.status = 'running'
                        )
                        AND NOT EXISTS (
                            SELECT FROM errand.rules x
                            WHERE x.queue = queue_name AND x.job_group = p.job_group AND x.paused
                        ) AS is_due
                FROM errand.jobs p
                WHERE p.queue = queue_name AND p.job_group > h.job_group AND p.ordered AND p.status IN ('pending', 'held')
                ORDER BY p.job_group, p.id
                LIMIT 1
            ) AS n
            WHERE h.found < max_jobs - cardinality(places) AND h.nth - h.found < 1000 - passed_over
                AND (final_group IS NULL OR h.job_group < final_group)
        )
        SELECT
            coalesce(array_agg(h.place) FILTER (WHERE h.is_due), '{}') AS due, max(h.job_group) AS last_group,
            max(h.nth) AS groups, max(h.found) AS found
        INTO walk
        FROM heads h;
        has_more := walk.found = max_jobs - cardinality(places) OR walk.groups - walk.found = 1000 - passed_over;
        places := places || ARRAY(
            SELECT j.ctid FROM errand.jobs j
            WHERE j.ctid = ANY (walk.due) AND j.status BETWEEN 'pending' AND 'pending' -- see settle.sql
            FOR UPDATE SKIP LOCKED
        );
        visited := visited + walk.groups;
        passed_over := passed_over + walk.groups - walk.found;
        IF walk.groups > 0 THEN
            last_group := walk.last_group;
        END IF;
        EXIT WHEN has_more OR final_group IS NOT NULL OR after_group = '';
        first_group := '';
        final_group := after_group;
    END LOOP;
    PERFORM set_config('lock_timeout', usual_timeout, true);
END
$$;

-- claim_ordered claims ordered jobs of a queue that are the first of their groups. Parameters and columns are those of
-- claim.sql. after_group is the group behind which the turns begin. The last row is no job: its id is 0, its job_group is
-- where the turns of the next claim begin, its attempts are 1 if the claim has not looked at all groups, and its
-- max_attempts how many groups it has looked at.
CREATE FUNCTION errand.claim_ordered(
    queue_name  text,
    kinds       text[],
    max_jobs    integer,
    lease       bigint,
    worker      text,
    longest     bigint,
    after_group text
) RETURNS TABLE (
    id bigint, queue text, kind text, payload jsonb, priority integer, scheduled_at timestamptz, attempts integer,
    max_attempts integer, fence bigint, created_at timestamptz, job_key text, headers jsonb, last_error text, job_group text
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    found_jobs record;
    drawn      bigint;
    at         timestamptz;
BEGIN
    SELECT * INTO found_jobs FROM errand.lock_ordered(queue_name, kinds, max_jobs, after_group, '1ms');
    at := clock_timestamp();
    IF cardinality(found_jobs.places) > 0 THEN
        drawn := nextval('errand.fences');
        RETURN QUERY
        UPDATE errand.jobs AS j
        SET
            status = 'running',
            attempts = least(j.attempts, 1999999999) + 1,
            fence = drawn,
            locked_at = at,
            locked_by = worker,
            locked_until = at + lease * interval '1 microsecond',
            updated_at = at,
            started_at = at,
            finished_at = NULL
        WHERE j.ctid = ANY (found_jobs.places)
        RETURNING
            j.id, j.queue::text, j.kind::text,
            CASE WHEN pg_column_size(j.payload) <= longest AND coalesce(pg_column_size(j.headers) <= longest, true)
                THEN j.payload END,
            j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts::integer, j.fence,
            least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(j.job_key, ''),
            CASE WHEN pg_column_size(j.headers) <= longest THEN j.headers END, coalesce(left(j.last_error, 8192), ''),
            coalesce(j.job_group, '');
    END IF;
    RETURN QUERY SELECT
        0::bigint, '', '', 'null'::jsonb, 0, at, found_jobs.has_more::integer, found_jobs.visited, 0::bigint, at, '', NULL::jsonb,
        '', found_jobs.last_group;
END
$$;
