-- lock_due locks due pending jobs that no other transaction has locked, and returns where they lie in the table, in the
-- order in which they are to be claimed: at most most of them. kinds is NULL for all. Where wait is not NULL, it is the
-- lock_timeout while rows are being locked. A queue may occur several times in queues, once for each stretch of it: the
-- stretch begins behind after_priority, after_due and after_id, and ends with last_priority and last_due. They are NULL
-- for whole queues.
-- A stretch is read priority by priority. One look-up finds the first job of each, so scheduled jobs cost nothing. From
-- the thousandth priority on, the rest is read as one, scheduled jobs included: so many look-ups would take longer.
-- Trying to lock a row that another claim has locked takes ten times as long as reading it, and several claims at once
-- would spend most of their time on that. So one of them, which gets the advisory lock, tries every row. The others pass
-- over rows with an xmax, which are locked or were locked once, and try every row only if they find nothing else. Where
-- wait is NULL, the caller's transaction may be long: it tries every row, without the advisory lock.
-- SKIP LOCKED does wait in one case (heap_lock_updated_tuple): a row is just being updated, and another transaction has
-- locked its new version, such as a Settle that waits for a row that this statement has locked.
-- The settings make every plan read the index in its order, whatever the statistics say: a planner that expects one
-- pending job or none may read and sort all of them. They hold for this function only.
-- Index: jobs_pending_idx.
CREATE FUNCTION errand.lock_due(
    queues         text[],
    kinds          text[],
    most           integer,
    wait           text,
    after_priority integer[]     DEFAULT NULL,
    after_due      timestamptz[] DEFAULT NULL,
    after_id       bigint[]      DEFAULT NULL,
    last_priority  integer[]     DEFAULT NULL,
    last_due       timestamptz[] DEFAULT NULL
) RETURNS tid[] LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off AS $$
DECLARE
    usual  CONSTANT text := current_setting('lock_timeout');
    every  boolean := CASE WHEN wait IS NULL THEN true
        ELSE pg_try_advisory_xact_lock('errand.jobs'::regclass::integer, hashtext(concat(queues, kinds))) END;
    locked tid[] := '{}';
    more   tid[];
    seen   integer;     -- how many priorities of the stretch
    head   record;      -- the first job of one priority
    final  integer;     -- the stretch's last priority
    until  timestamptz; -- up to when its jobs are due
BEGIN
    IF wait IS NOT NULL THEN
        PERFORM set_config('lock_timeout', wait, true);
    END IF;
    LOOP
        <<stretches>>
        FOR i IN 1 .. cardinality(queues) LOOP
            seen := 1;
            final := coalesce(last_priority[i], 2147483647);
            until := least(statement_timestamp(), last_due[i]);
            SELECT j.priority, j.scheduled_at, j.id INTO head
            FROM errand.jobs j
            WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority <= final
                AND (j.priority, j.scheduled_at, j.id) > (
                    coalesce(after_priority[i], -2147483648), coalesce(after_due[i], '-infinity'), coalesce(after_id[i], 0))
            ORDER BY j.priority, j.scheduled_at, j.id
            LIMIT 1;
            WHILE FOUND AND seen < 1000 LOOP
                IF head.scheduled_at <= statement_timestamp() THEN
                    more := ARRAY(
                        SELECT j.ctid
                        FROM errand.jobs j
                        WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority = head.priority
                            AND j.scheduled_at <= until AND (j.scheduled_at, j.id) >= (head.scheduled_at, head.id)
                            AND (kinds IS NULL OR j.kind = ANY (kinds)) AND (every OR j.xmax = '0')
                        ORDER BY j.priority, j.scheduled_at, j.id
                        LIMIT most - cardinality(locked)
                        FOR UPDATE SKIP LOCKED
                    );
                    locked := locked || more;
                    EXIT stretches WHEN cardinality(locked) = most;
                END IF;
                seen := seen + 1;
                SELECT j.priority, j.scheduled_at, j.id INTO head
                FROM errand.jobs j
                WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority > head.priority AND j.priority <= final
                ORDER BY j.priority, j.scheduled_at, j.id
                LIMIT 1;
            END LOOP;
            IF FOUND THEN
                more := ARRAY(
                    SELECT j.ctid
                    FROM errand.jobs j
                    WHERE j.queue = queues[i] AND j.status = 'pending' AND j.priority <= final
                        AND j.scheduled_at <= until
                        AND (j.priority, j.scheduled_at, j.id) >= (head.priority, head.scheduled_at, head.id)
                        AND (kinds IS NULL OR j.kind = ANY (kinds)) AND (every OR j.xmax = '0')
                    ORDER BY j.priority, j.scheduled_at, j.id
                    LIMIT most - cardinality(locked)
                    FOR UPDATE SKIP LOCKED
                );
                locked := locked || more;
                EXIT stretches WHEN cardinality(locked) = most;
            END IF;
        END LOOP;
        EXIT WHEN every OR cardinality(locked) > 0;
        every := true;
    END LOOP;
    IF wait IS NOT NULL THEN
        PERFORM set_config('lock_timeout', usual, true);
    END IF;
    RETURN locked;
END
$$;
