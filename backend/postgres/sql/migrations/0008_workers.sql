-- The workers as they have last reported themselves (queue.Fleet). Unlogged, because after a crash of the server they
-- report themselves again within seconds. A standby shows none.
CREATE UNLOGGED TABLE errand.workers (
    worker      text COLLATE "C" PRIMARY KEY,
    info        jsonb NOT NULL,       -- a queue.WorkerInfo
    started_at  timestamptz NOT NULL,
    claimed_at  timestamptz,          -- the last claim that has succeeded; NULL: none has
    draining_at timestamptz,          -- when the worker was told to stop; NULL: it was not
    seen_at     timestamptz NOT NULL  -- the last report
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
