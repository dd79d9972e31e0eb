-- insert_keyed writes the jobs of enqueue.sql, some of which have keys. It draws their ids in the order of the batch
-- and writes them in the order of their keys: two batches that wrote the same keys in different orders would deadlock.
-- So it sets the ids, which no other statement may: ids set ahead of the sequence would make later jobs fail. It runs
-- with its owner's rights; docs/roles.sql grants it to the roles that may call it. Its parameters are those of
-- enqueue.sql. live_id is the id of the live job that has the key: the one that this batch has written, or one that was
-- there before. It is NULL if another statement has written that job after this one's snapshot.
-- Index: jobs_key_idx.
CREATE FUNCTION errand.insert_keyed(
    queues       text[],
    kinds        text[],
    payloads     text,
    priorities   integer[],
    delays       bigint[],
    dues         timestamptz[],
    max_attempts integer[],
    job_keys     text[],
    headers      text[]
) RETURNS TABLE (id bigint, duplicate boolean, live_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    -- All jobs are due at the same time, so they keep their order. The transaction draws its number before the clock
    -- is read: rationed claims (ration_marks.go) need the two to be close, and sorting a large batch takes time.
    started CONSTANT timestamptz := CASE WHEN pg_current_xact_id() IS NOT NULL THEN clock_timestamp() END;
BEGIN
    RETURN QUERY
    WITH input AS MATERIALIZED (
        SELECT
            nextval('errand.jobs_id_seq') AS id, coalesce(t.queue, queues[1]) AS queue, coalesce(t.kind, kinds[1]) AS kind,
            t.payload, t.priority, t.delay, t.due, t.most, t.job_key, t.headers, t.ord
        FROM unnest(queues, kinds, string_to_array(payloads, E'\x1e'), priorities, delays, dues, insert_keyed.max_attempts, job_keys,
            insert_keyed.headers)
            WITH ORDINALITY AS t (queue, kind, payload, priority, delay, due, most, job_key, headers, ord)
    ), written AS (
        INSERT INTO errand.jobs AS j (id, queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers)
        SELECT
            i.id, i.queue, i.kind, i.payload::jsonb, coalesce(i.priority, 0),
            coalesce(i.due, started + coalesce(i.delay, 0) * interval '1 microsecond'),
            coalesce(i.most, 5), i.job_key, i.headers::jsonb
        FROM input i
        ORDER BY i.job_key COLLATE "C", i.queue COLLATE "C", i.ord
        ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN ('pending', 'running') DO NOTHING
        RETURNING j.id, j.queue, j.job_key
    ), result AS (
        SELECT
            i.id, i.queue, i.job_key, i.ord, i.job_key IS NOT NULL AND w.id IS DISTINCT FROM i.id AS duplicate,
            w.id AS written_id
        FROM input i
        LEFT JOIN written w ON w.queue = i.queue AND w.job_key = i.job_key
    )
    SELECT r.id, r.duplicate,
        CASE WHEN r.duplicate THEN coalesce(r.written_id, (
            SELECT live.id FROM errand.jobs live
            WHERE live.queue = r.queue AND live.job_key = r.job_key AND live.status IN ('pending', 'running')
        )) END
    FROM result r
    ORDER BY r.ord;
END
$$;
REVOKE ALL ON FUNCTION errand.insert_keyed FROM PUBLIC;
