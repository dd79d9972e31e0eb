-- Sequences that are behind their tables: logical replication does not copy them before PostgreSQL 19, and some restores
-- set them back.

-- A fence is never one that an earlier claim of the job has drawn, whatever the sequence gives: whatever takes a job
-- from its holder makes its fence negative, and each claim takes at least one more than the number in the row. The
-- bounds keep the sum from failing for a number that no claim has drawn.
-- enqueue fails like other statements if its id is in use. It drew one id after another until one was free.
DO $$
DECLARE
    change record;
    before text;
BEGIN
    FOR change IN
        SELECT * FROM (VALUES
            ('errand.claim_ordered', 'fence = drawn,',
                'fence = greatest(drawn, least(abs(greatest(j.fence, -9223372036854775806)), 9223372036854775806) + 1),'),
            ('errand.claim_limited', 'fence = drawn,',
                'fence = greatest(drawn, least(abs(greatest(j.fence, -9223372036854775806)), 9223372036854775806) + 1),'),
            ('errand.enqueue', '#variable_conflict use_variable', '#variable_conflict use_column'),
            ('errand.enqueue', 'ON CONFLICT DO NOTHING -- only jobs_key_idx can conflict: the id is new',
                'ON CONFLICT (queue, job_key) WHERE job_key IS NOT NULL AND status IN (''pending'', ''running'', ''held'') DO NOTHING'),
            ('errand.enqueue', 'live.queue = queue AND live.job_key = job_key',
                'live.queue = enqueue.queue AND live.job_key = enqueue.job_key'),
            ('errand.enqueue', 's.queue = queue', 's.queue = enqueue.queue')
        ) AS c (routine, from_text, to_text)
    LOOP
        before := pg_get_functiondef(change.routine::regproc);
        IF position(change.from_text IN before) = 0 THEN
            RAISE EXCEPTION 'the function % is not as the migrations make it: it has no %', change.routine, change.from_text;
        END IF;
        EXECUTE replace(before, change.from_text, change.to_text);
    END LOOP;
END
$$;

-- sequences_behind returns the sequences that will give numbers that are in use, with the last number of each and the
-- highest in use. Fences are compared with those of running jobs. It runs with its owner's rights, because no role may
-- read all of this. The statement's snapshot is taken before it reads the sequences, so what others write beside it
-- makes no sequence look behind. The jobs that audit entries name do not count: they may be another backend's.
-- Index: jobs_pkey, results_pkey, audit_pkey, jobs_running_idx.
CREATE FUNCTION errand.sequences_behind() RETURNS TABLE (sequence text, last bigint, used bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH used AS MATERIALIZED (
        SELECT
            greatest((SELECT max(id) FROM errand.jobs), (SELECT max(job_id) FROM errand.results)) AS jobs,
            (SELECT max(id) FROM errand.audit) AS audit,
            (SELECT max(fence) FROM errand.jobs WHERE status = 'running') AS fences
    )
    SELECT b.sequence, b.last, b.used
    FROM used u
    CROSS JOIN LATERAL (
        SELECT 'jobs_id_seq', CASE WHEN s.is_called THEN s.last_value ELSE 0 END, u.jobs FROM errand.jobs_id_seq s
        UNION ALL
        SELECT 'audit_id_seq', CASE WHEN s.is_called THEN s.last_value ELSE 0 END, u.audit FROM errand.audit_id_seq s
        UNION ALL
        SELECT 'fences', CASE WHEN s.is_called THEN s.last_value ELSE 0 END, u.fences FROM errand.fences s
    ) AS b (sequence, last, used)
    WHERE b.last < b.used
$$;
