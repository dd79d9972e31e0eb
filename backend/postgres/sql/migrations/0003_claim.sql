-- lock_due locks due pending jobs that no other transaction has locked, at most max_jobs. It returns their places in
-- the table, in the order in which they should be claimed. kinds is NULL for all. row_lock_timeout is the lock_timeout
-- while rows are being locked; NULL leaves it as it is. A queue may occur several times in queues, once for each span
-- of it. The span begins behind after_priority, after_due and after_id, and ends with last_priority and last_due. They
-- are NULL for whole queues.
-- A span is read priority by priority. One look-up finds the first job of each priority, so scheduled jobs cost
-- nothing. From the thousandth priority on, the rest is read as one, scheduled jobs included: so many look-ups would
-- take longer.
-- Trying to lock a row that another claim has locked takes ten times as long as reading it, and several claims at once
-- would spend most of their time on that. So only the claim that gets the advisory lock tries every row. The others
-- pass over rows with an xmax, which are locked or were locked once. They try every row only if they find nothing else.
-- Thousands of due jobs of other kinds may stand at the head of a priority. With recent_first, such a priority is at
-- first read only from two seconds ago on. If that and the other priorities yield jobs, lock_due returns only them, and
-- else it reads everything. So new jobs do not wait while a claim reads a million jobs.
-- If row_lock_timeout is NULL, the caller's transaction may be long: it tries every row, without the advisory lock.
-- SKIP LOCKED waits in one case (heap_lock_updated_tuple): another transaction is just updating the row, and a third
-- has locked the row's new version. The third may be a Settle that waits for a row that this statement has locked.
-- It fails if it comes to ordered jobs (see lock_ordered) and its caller has not excluded them by last_priority. So a
-- claim learns at no cost that it has to call claim_ordered, too.
-- The settings make every plan read the index in its order, whatever the statistics say. A planner that expects one
-- pending job or none may read and sort all of them. The settings hold for this function only.
-- Index: jobs_pending_idx.
CREATE FUNCTION errand.lock_due(
    queues           text[],
    kinds            text[],
    max_jobs         integer,
    row_lock_timeout text,
    after_priority   integer[]     DEFAULT NULL,
    after_due        timestamptz[] DEFAULT NULL,
    after_id         bigint[]      DEFAULT NULL,
    last_priority    integer[]     DEFAULT NULL,
    last_due         timestamptz[] DEFAULT NULL,
    recent_first     boolean       DEFAULT false
) RETURNS tid[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    usual_timeout   CONSTANT text := current_setting('lock_timeout');
    try_every       boolean := CASE WHEN row_lock_timeout IS NULL THEN true
        ELSE pg_try_advisory_xact_lock('errand.jobs'::regclass::integer, hashtext(concat(queues, kinds))) END;
    now_set         text;
    locked          tid[] := '{}';
    newly_locked    tid[];
    priorities_seen integer;     -- in the span
    head            record;      -- the first job of one priority
    start_due       timestamptz; -- where reading that priority starts
    start_id        bigint;
    passed_over     boolean;     -- a priority was read only from two seconds ago on
    final_priority  integer;     -- the span's last
    final_due       timestamptz; -- the latest due time of jobs in the span
BEGIN
    IF row_lock_timeout IS NOT NULL THEN -- := takes half the time of PERFORM
        now_set := set_config('lock_timeout', row_lock_timeout, true);
    END IF;
    LOOP
        passed_over := false;
        <<spans>>
        FOR i IN 1 .. cardinality(queues) LOOP
            priorities_seen := 1;
            final_priority := coalesce(last_priority[i], 2147483646);
            final_due := least(statement_timestamp(), last_due[i]);
            SELECT j.priority, j.scheduled_at, j.id, j.kind INTO head
            FROM errand.jobs j
            WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority <= final_priority
                AND (j.priority, j.scheduled_at, j.id) > (
                    coalesce(after_priority[i], -2147483648),
                    coalesce(after_due[i], '-infinity'),
                    coalesce(after_id[i], 0))
            ORDER BY j.priority, j.scheduled_at, j.id
            LIMIT 1;
            WHILE FOUND AND priorities_seen < 1000 LOOP
                IF head.priority = 2147483647 THEN
                    RAISE EXCEPTION 'errand: the queue has ordered jobs, the claim is repeated' USING ERRCODE = 'EORD1';
                END IF;
                IF head.scheduled_at <= statement_timestamp() THEN
                    start_due := head.scheduled_at;
                    start_id := head.id;
                    IF recent_first AND head.kind <> ALL (kinds)
                        AND head.scheduled_at < statement_timestamp() - interval '2 seconds' THEN
                        PERFORM FROM errand.jobs j
                        WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority = head.priority
                            AND j.scheduled_at <= final_due AND (j.scheduled_at, j.id) >= (head.scheduled_at, head.id)
                        ORDER BY j.priority, j.scheduled_at, j.id
                        OFFSET 5000 LIMIT 1;
                        IF FOUND THEN
                            start_due := statement_timestamp() - interval '2 seconds';
                            start_id := -9223372036854775808;
                            passed_over := true;
                        END IF;
                    END IF;
                    newly_locked := ARRAY(
                        SELECT j.ctid
                        FROM errand.jobs j
                        WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority = head.priority
                            AND j.scheduled_at <= final_due AND (j.scheduled_at, j.id) >= (start_due, start_id)
                            AND (kinds IS NULL OR j.kind = ANY (kinds)) AND (try_every OR j.xmax = '0')
                        ORDER BY j.priority, j.scheduled_at, j.id
                        LIMIT max_jobs - cardinality(locked)
                        FOR UPDATE SKIP LOCKED
                    );
                    locked := locked || newly_locked;
                    EXIT spans WHEN cardinality(locked) = max_jobs;
                END IF;
                priorities_seen := priorities_seen + 1;
                SELECT j.priority, j.scheduled_at, j.id, j.kind INTO head
                FROM errand.jobs j
                WHERE j.queue = queues[i] AND j.status = 'pending'
                    AND j.priority > head.priority AND j.priority <= final_priority
                ORDER BY j.priority, j.scheduled_at, j.id
                LIMIT 1;
            END LOOP;
            IF FOUND THEN
                newly_locked := ARRAY(
                    SELECT j.ctid
                    FROM errand.jobs j
                    WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority <= least(final_priority, 2147483646)
                        AND j.scheduled_at <= final_due
                        AND (j.priority, j.scheduled_at, j.id) >= (head.priority, head.scheduled_at, head.id)
                        AND (kinds IS NULL OR j.kind = ANY (kinds)) AND (try_every OR j.xmax = '0')
                    ORDER BY j.priority, j.scheduled_at, j.id
                    LIMIT max_jobs - cardinality(locked)
                    FOR UPDATE SKIP LOCKED
                );
                locked := locked || newly_locked;
                EXIT spans WHEN cardinality(locked) = max_jobs;
            END IF;
        END LOOP;
        EXIT WHEN cardinality(locked) > 0 OR (try_every AND NOT passed_over);
        try_every := true;
        recent_first := false;
    END LOOP;
    IF row_lock_timeout IS NOT NULL THEN
        now_set := set_config('lock_timeout', usual_timeout, true);
    END IF;
    RETURN locked;
END
$$;
