-- Ordered jobs: of each group one job at a time, in the order of ids. Their priority is 2147483647, which no other job
-- has. So they are behind all others in jobs_pending_idx, where no other claim reads them.

-- For finding the first job of each group. Running jobs are not in it: each heartbeat would add an entry.
CREATE INDEX jobs_ordered_idx ON errand.jobs (queue, job_group, id) WHERE ordered AND status IN ('pending', 'held');
-- One running job a group, whatever statement makes it run.
CREATE UNIQUE INDEX jobs_ordered_one_idx ON errand.jobs (queue, job_group) WHERE ordered AND status = 'running';

-- lock_ordered locks the first jobs of groups that are due, at most max_jobs, and returns their places. The first job of
-- a group is the one with the lowest id. It is passed over if it is held, not due, of other kinds, or locked, or if a
-- job of the group runs. A job that commits late, or is redriven, may come first while one with a higher id runs.
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
            j.id, j.queue, j.kind,
            CASE WHEN pg_column_size(j.payload) <= longest AND coalesce(pg_column_size(j.headers) <= longest, true)
                THEN j.payload END,
            j.priority, greatest(j.scheduled_at, '1970-01-01Z'), j.attempts, j.max_attempts, j.fence,
            least(greatest(j.created_at, '1970-01-01Z'), '9999-12-31Z'), coalesce(j.job_key, ''),
            CASE WHEN pg_column_size(j.headers) <= longest THEN j.headers END, coalesce(left(j.last_error, 8192), ''),
            coalesce(j.job_group, '');
    END IF;
    RETURN QUERY SELECT
        0::bigint, '', '', 'null'::jsonb, 0, at, found_jobs.has_more::integer, found_jobs.visited, 0::bigint, at, '', NULL::jsonb,
        '', found_jobs.last_group;
END
$$;

-- lock_due fails if it comes to ordered jobs and its caller has not excluded them by last_priority. So a claim learns at
-- no cost that it has to call claim_ordered, too.
DO $$
DECLARE
    definition text := pg_get_functiondef('errand.lock_due'::regproc);
BEGIN
    definition := replace(definition, 'coalesce(last_priority[i], 2147483647)', 'coalesce(last_priority[i], 2147483646)');
    definition := replace(definition, 'WHILE FOUND AND priorities_seen < 1000 LOOP', 'WHILE FOUND AND priorities_seen < 1000 LOOP
                IF head.priority = 2147483647 THEN
                    RAISE EXCEPTION ''errand: the queue has ordered jobs, the claim is repeated'' USING ERRCODE = ''EORD1'';
                END IF;');
    definition := replace(definition, 'j.priority <= final_priority
                        AND j.scheduled_at <= final_due', 'j.priority <= least(final_priority, 2147483646)
                        AND j.scheduled_at <= final_due');
    IF position('EORD1' IN definition) = 0 OR position('least(final_priority' IN definition) = 0 THEN
        RAISE EXCEPTION 'errand: lock_due is not as migration 9 has made it';
    END IF;
    EXECUTE definition;
END
$$;

-- enqueue takes ordered, too. A function with other parameters is another function.
DO $$
DECLARE
    definition text := pg_get_functiondef('errand.enqueue'::regproc);
BEGIN
    definition := replace(definition, 'max_delay interval DEFAULT NULL::interval)',
        'max_delay interval DEFAULT NULL::interval, ordered boolean DEFAULT false)');
    definition := replace(definition, '    ELSIF on_duplicate NOT IN', '    ELSIF ordered AND job_group IS NULL THEN
        RAISE EXCEPTION ''errand: invalid ordered: without a job_group'' USING ERRCODE = ''invalid_parameter_value'';
    ELSIF ordered AND priority <> 0 THEN
        RAISE EXCEPTION ''errand: invalid priority: % of an ordered job: must be 0'', priority USING ERRCODE = ''invalid_parameter_value'';
    ELSIF priority = 2147483647 THEN
        RAISE EXCEPTION ''errand: invalid priority: %: at most 2147483646'', priority USING ERRCODE = ''invalid_parameter_value'';
    ELSIF on_duplicate NOT IN');
    definition := replace(definition, '    IF on_duplicate = ''replace'' THEN', '    ordered := nullif(ordered, false);
    IF ordered THEN
        priority := 2147483647;
    END IF;
    IF on_duplicate = ''replace'' THEN');
    definition := replace(definition, 'ARRAY[job_group], NULL, ARRAY[true]', 'ARRAY[job_group], ARRAY[ordered], ARRAY[true]');
    definition := replace(definition, 'headers, job_group)', 'headers, job_group, ordered)');
    IF position('ordered boolean' IN definition) = 0 OR position('nullif(ordered' IN definition) = 0
        OR position('ARRAY[ordered]' IN definition) = 0 OR position('headers, job_group, ordered)' IN definition) = 0 THEN
        RAISE EXCEPTION 'errand: enqueue is not as migration 14 has made it';
    END IF;
    DROP FUNCTION errand.enqueue;
    EXECUTE definition;
END
$$;
