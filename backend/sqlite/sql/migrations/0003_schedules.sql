-- Schedules: jobs to enqueue again and again, at the times of a cron expression. Go computes the times.
CREATE TABLE errand_schedules (
    name       TEXT PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    spec       TEXT NOT NULL,
    zone       TEXT NOT NULL DEFAULT '',     -- '' is UTC
    job        TEXT NOT NULL,                -- a queue.Job in JSON
    missed     TEXT NOT NULL DEFAULT 'last', -- or skip, all
    grace      INTEGER NOT NULL DEFAULT 0,   -- microseconds
    overlap    INTEGER NOT NULL DEFAULT 0,
    paused     INTEGER NOT NULL DEFAULT 0,
    next_at    INTEGER,                      -- the next tick; NULL: none, because it is paused or deleted
    last_tick  INTEGER,                      -- the last tick that was fired
    last_job   INTEGER,                      -- its job
    skipped    INTEGER NOT NULL DEFAULT 0,   -- ticks that enqueued nothing because a live job had the key
    version    INTEGER NOT NULL,             -- one more for each change, but not for a tick
    digest     TEXT,                         -- of the text that code has declared; NULL: it has not
    release    INTEGER NOT NULL DEFAULT 0,   -- the highest release that has declared it
    edited     INTEGER NOT NULL DEFAULT 0,   -- by a person, since it was declared
    deleted    INTEGER NOT NULL DEFAULT 0,   -- by a person; kept because code declares it
    updated_at INTEGER NOT NULL              -- when version last changed
) STRICT;

-- Serves the look for the next tick, and for the ticks that are due.
CREATE INDEX errand_schedules_next ON errand_schedules (next_at) WHERE next_at IS NOT NULL;
