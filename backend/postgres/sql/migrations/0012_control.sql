-- When somebody asked for the job to be cancelled. No index has it, so a heartbeat or a request costs none an entry.
ALTER TABLE errand.jobs ADD COLUMN cancel_at timestamptz;
ALTER TABLE errand.jobs_archive ADD COLUMN cancel_at timestamptz;

-- For listing and counting the jobs that do not run unless somebody acts, and for pruning those that have ended. One
-- index, because each costs every statement that writes.
CREATE INDEX jobs_stopped_idx ON errand.jobs (status, updated_at, id) WHERE status IN ('dead', 'held', 'cancelled');
DROP INDEX errand.jobs_dead_idx;

-- A held job keeps its key.
DROP INDEX errand.jobs_key_idx;
CREATE UNIQUE INDEX jobs_key_idx ON errand.jobs (queue, job_key)
    WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held');

-- The functions that look for the live job with a key find held jobs, too.
DO $$
DECLARE
    definition text;
BEGIN
    FOR definition IN
        SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = 'errand' AND p.proname IN ('insert_keyed', 'enqueue')
    LOOP
        EXECUTE replace(definition, $old$('pending', 'running')$old$, $new$('pending', 'running', 'held')$new$);
    END LOOP;
END
$$;
