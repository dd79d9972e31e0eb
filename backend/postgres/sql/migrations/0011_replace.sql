-- insert_replacing writes the jobs of enqueue_replacing.sql, some of which replace the live job that has their key. The
-- effect is that of writing the jobs one by one, in the order of the batch. It draws their ids in that order. It locks
-- the live jobs in the order of their ids, as settle.sql does, and then writes the jobs in the order of their keys, as
-- insert_keyed does: otherwise two calls could deadlock. Its parameters are those of enqueue_replacing.sql, and its
-- rights those of insert_keyed. It returns the jobs in the order of the batch.
-- A pending job is updated. It keeps created_at, from which max_delay counts, unless it has been tried before. A job
-- that is not put off keeps its due time, so that it starts however often it is replaced. A running job gives its key
-- up; nothing else of it changes, not even updated_at, which tells when the guide's statements have claimed a job.
-- Index: jobs_key_idx, jobs_pkey.
CREATE FUNCTION errand.insert_replacing(
    queues       text[],
    kinds        text[],
    payloads     text,
    priorities   integer[],
    delays       bigint[],
    dues         timestamptz[],
    max_attempts integer[],
    job_keys     text[],
    headers      text[],
    job_groups   text[],
    ordered      boolean[],
    replaces     boolean[],
    max_delays   bigint[]
) RETURNS TABLE (id bigint, duplicate boolean, replaced boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- See insert_keyed.
    started    CONSTANT timestamptz := CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END;
    size       CONSTANT integer := cardinality(string_to_array(payloads, E'\x1e'));
    live       bigint[];
    job        record;
    live_id    bigint; -- of the job that has the key, this one included
    ids        bigint[] := array_fill(0::bigint, ARRAY[size]);
    duplicates boolean[] := array_fill(false, ARRAY[size]);
    replaced   boolean[] := array_fill(false, ARRAY[size]);
BEGIN
    IF size > 1 THEN
        live := ARRAY(
            SELECT (
                SELECT j.id FROM errand.jobs j
                WHERE j.queue = coalesce(t.queue, queues[1]) AND j.job_key = t.job_key AND j.status IN ('pending', 'running'))
            FROM unnest(queues, job_keys, replaces) AS t (queue, job_key, replaces)
            WHERE t.replaces);
        PERFORM FROM errand.jobs j
        WHERE j.id = ANY (live) AND j.status BETWEEN 'pending' AND 'running'
        ORDER BY j.id
        FOR NO KEY UPDATE;
    END IF;
    FOR job IN
        WITH input AS MATERIALIZED (
            SELECT
                nextval('errand.jobs_id_seq') AS id, coalesce(t.queue, queues[1]) AS queue, coalesce(t.kind, kinds[1]) AS kind,
                t.payload, coalesce(t.priority, 0) AS priority,
                coalesce(t.due, started + coalesce(t.delay, 0) * interval '1 microsecond') AS due, t.due IS NOT NULL AS fixed,
                coalesce(t.most, 5) AS most, t.job_key, t.headers, t.job_group, t.ordered, coalesce(t.replaces, false) AS replaces,
                t.max_delay * interval '1 microsecond' AS max_delay, t.ord
            FROM unnest(
                queues, kinds, string_to_array(payloads, E'\x1e'), priorities, delays, dues,
                insert_replacing.max_attempts, job_keys, insert_replacing.headers, job_groups, insert_replacing.ordered,
                replaces, max_delays)
                WITH ORDINALITY AS t (
                    queue, kind, payload, priority, delay, due, most, job_key, headers, job_group, ordered, replaces,
                    max_delay, ord)
        )
        SELECT * FROM input i ORDER BY i.job_key COLLATE "C", i.queue COLLATE "C", i.ord
    LOOP
        LOOP
            IF NOT job.replaces THEN
                INSERT INTO errand.jobs AS j (
                    id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered)
                VALUES (
                    job.id, job.queue, job.kind, job.payload::jsonb, job.priority, job.due, job.most, job.job_key,
                    job.headers::jsonb, job.job_group, job.ordered)
                ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running') DO NOTHING
                RETURNING j.id INTO live_id;
                EXIT WHEN FOUND;
                SELECT j.id INTO live_id FROM errand.jobs j
                WHERE j.queue = job.queue AND j.job_key = job.job_key AND j.status IN ('pending', 'running');
                EXIT WHEN FOUND;
                CONTINUE; -- that job has just ended
            END IF;
            INSERT INTO errand.jobs AS j (
                id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered)
            VALUES (
                job.id, job.queue, job.kind, job.payload::jsonb, job.priority, job.due, job.most, job.job_key,
                job.headers::jsonb, job.job_group, job.ordered)
            ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running') DO UPDATE
            SET
                kind = excluded.kind, payload = excluded.payload, priority = excluded.priority,
                max_attempts = excluded.max_attempts, headers = excluded.headers,
                job_group = excluded.job_group, ordered = excluded.ordered,
                attempts = 0, last_error = NULL, updated_at = statement_timestamp(),
                created_at = CASE WHEN j.attempts = 0 THEN j.created_at ELSE excluded.created_at END,
                scheduled_at = (
                    SELECT CASE
                        WHEN job.fixed OR put_off.until > started THEN put_off.until
                        ELSE least(j.scheduled_at, started) END
                    FROM (SELECT least(excluded.scheduled_at, job.max_delay + CASE
                        WHEN j.attempts = 0 THEN least(j.created_at, '9999-12-31Z')
                        ELSE excluded.created_at END) AS until) AS put_off)
            WHERE j.status = 'pending'
            RETURNING j.id INTO live_id;
            EXIT WHEN FOUND;
            UPDATE errand.jobs j SET job_key = NULL
            WHERE j.queue = job.queue AND j.job_key = job.job_key AND j.status IN ('pending', 'running') AND j.status <> 'pending';
        END LOOP;
        ids[job.ord] := live_id;
        duplicates[job.ord] := live_id <> job.id AND NOT job.replaces;
        replaced[job.ord] := live_id <> job.id AND job.replaces;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(ids, duplicates, replaced);
END
$$;
REVOKE ALL ON FUNCTION errand.insert_replacing FROM PUBLIC;
