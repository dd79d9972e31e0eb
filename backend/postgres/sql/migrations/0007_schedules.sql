-- Schedules: jobs to enqueue again and again, at the times of a cron expression. Go computes the times.
CREATE TABLE errand.schedules (
    name       text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    spec       text NOT NULL,
    zone       text NOT NULL DEFAULT '',      -- '' is UTC
    job        jsonb NOT NULL,                -- a queue.Job
    missed     text NOT NULL DEFAULT 'last' CHECK (missed IN ('last', 'skip', 'all')),
    grace      bigint NOT NULL DEFAULT 0,     -- microseconds
    overlap    boolean NOT NULL DEFAULT false,
    paused     boolean NOT NULL DEFAULT false,
    next_at    timestamptz CHECK (isfinite(next_at)), -- the next tick; NULL: none, because it is paused or deleted
    last_tick  timestamptz,                   -- the last tick that was fired
    last_job   bigint,                        -- its job
    skipped    bigint NOT NULL DEFAULT 0,     -- ticks that enqueued nothing because a live job had the key
    version    bigint NOT NULL,               -- one more for each change, but not for a tick
    digest     text,                          -- of the text that code has declared; NULL: it has not
    release    bigint NOT NULL DEFAULT 0,     -- the highest release that has declared it
    edited     boolean NOT NULL DEFAULT false, -- by a person, since it was declared
    deleted    boolean NOT NULL DEFAULT false, -- by a person; kept because code declares it
    updated_at timestamptz NOT NULL DEFAULT now() -- when version last changed
);

-- Serves the look for the next tick, and for the ticks that are due.
CREATE INDEX schedules_next_idx ON errand.schedules (next_at) WHERE next_at IS NOT NULL;
