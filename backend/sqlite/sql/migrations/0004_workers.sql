-- The workers as they have last reported themselves (queue.Fleet).
CREATE TABLE errand_workers (
    worker      TEXT PRIMARY KEY,
    info        TEXT NOT NULL,    -- a queue.WorkerInfo in JSON
    started_at  INTEGER NOT NULL,
    claimed_at  INTEGER,          -- the last claim that has succeeded; NULL: none has
    draining_at INTEGER,          -- when the worker was told to stop; NULL: it was not
    seen_at     INTEGER NOT NULL  -- the last report
) STRICT;
