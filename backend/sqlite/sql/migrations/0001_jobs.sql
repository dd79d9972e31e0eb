-- The jobs table. In these files tables and indexes begin with errand_; Options.Prefix takes its place.
-- Times are whole microseconds since 1970 by the host's clock.

-- Ids are never used twice (AUTOINCREMENT), and drawn in the order in which transactions commit.
-- The columns that change come first and the long ones last, so that counting and claiming read the pages of a
-- long payload only when they must.
CREATE TABLE errand_jobs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT NOT NULL DEFAULT 'default' CHECK (length(queue) BETWEEN 1 AND 200),
    status       TEXT NOT NULL DEFAULT 'pending', -- or running, completed, dead; a CHECK would slow claims by a quarter
    priority     INTEGER NOT NULL DEFAULT 0,
    scheduled_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    attempts     INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 5,
    fence        INTEGER NOT NULL DEFAULT 0, -- 0 unless a claim has drawn one
    locked_at    INTEGER,
    locked_until INTEGER,                    -- when the lease expires
    locked_by    TEXT,
    created_at   INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    updated_at   INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    kind         TEXT NOT NULL DEFAULT 'default' CHECK (length(kind) BETWEEN 1 AND 200),
    job_key      TEXT,
    last_error   TEXT,
    headers      TEXT,                       -- a JSON object of strings, or NULL
    payload      TEXT NOT NULL DEFAULT 'null'
) STRICT;

-- Where the ids begin. A sleeping worker also reads this row, to learn that jobs have been written.
INSERT INTO sqlite_sequence (name, seq) VALUES ('errand_jobs', 0);

-- Each claim draws its fence here.
CREATE TABLE errand_fences (last INTEGER NOT NULL) STRICT;
INSERT INTO errand_fences (last) VALUES (0);

-- Serves the claim. The id, with which every index ends, puts ties in insertion order without a sort.
CREATE INDEX errand_jobs_pending ON errand_jobs (queue, priority, scheduled_at) WHERE status = 'pending';
-- Serves settling and the extension of leases, which name jobs by their ids, and the reclaim, which reads all
-- running jobs: they are never many. A statement can insist on an index only. With the statistics of a table that
-- was short when it was analyzed, SQLite would read the whole table instead of looking the ids up.
CREATE INDEX errand_jobs_running ON errand_jobs (id) WHERE status = 'running';
-- Serves Redrive and the list of dead jobs, newest first.
CREATE INDEX errand_jobs_dead ON errand_jobs (id) WHERE status = 'dead';
-- Allows one live job a key.
CREATE UNIQUE INDEX errand_jobs_key ON errand_jobs (queue, job_key)
    WHERE job_key IS NOT NULL AND status IN ('pending', 'running');

-- Holds removed jobs if Options.Retention.Archive is set.
CREATE TABLE errand_jobs_archive (
    id           INTEGER PRIMARY KEY,
    queue        TEXT NOT NULL,
    status       TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    scheduled_at INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    fence        INTEGER NOT NULL,
    locked_at    INTEGER,
    locked_until INTEGER,
    locked_by    TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    job_key      TEXT,
    last_error   TEXT,
    headers      TEXT,
    payload      TEXT NOT NULL
) STRICT;
