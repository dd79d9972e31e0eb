-- The jobs table. Everywhere in these files tables and indexes begin with errand_; the prefix of Options takes its place.
-- Times are whole microseconds since 1970 by the host's clock.

-- Ids are never used twice (AUTOINCREMENT), and drawn in the order in which transactions commit.
-- What changes comes first and what is long comes last, so that neither counting nor claiming reads a long payload's pages
-- before it has to.
CREATE TABLE errand_jobs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT NOT NULL DEFAULT 'default' CHECK (length(queue) BETWEEN 1 AND 200),
    status       TEXT NOT NULL DEFAULT 'pending', -- running, completed or dead; a CHECK would make claims and settling a quarter dearer
    priority     INTEGER NOT NULL DEFAULT 0,
    scheduled_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    attempts     INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 5,
    fence        INTEGER NOT NULL DEFAULT 0, -- 0 unless a claim has drawn one
    locked_at    INTEGER,
    locked_until INTEGER,                    -- when the lease runs out
    locked_by    TEXT,
    created_at   INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    updated_at   INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    kind         TEXT NOT NULL DEFAULT 'default' CHECK (length(kind) BETWEEN 1 AND 200),
    job_key      TEXT,
    last_error   TEXT,
    headers      TEXT,                       -- a JSON object of strings, or NULL
    payload      TEXT NOT NULL DEFAULT 'null'
) STRICT;

-- Where the ids begin. Its row is also what a sleeping worker looks at to learn that jobs have been written.
INSERT INTO sqlite_sequence (name, seq) VALUES ('errand_jobs', 0);

-- Each claim draws its fence here.
CREATE TABLE errand_fences (last INTEGER NOT NULL) STRICT;
INSERT INTO errand_fences (last) VALUES (0);

-- Serves the claim. The id, which ends every index, makes ties come in insertion order without a sort.
CREATE INDEX errand_jobs_pending ON errand_jobs (queue, priority, scheduled_at) WHERE status = 'pending';
-- Serves settling and the extension of leases, which name jobs by their ids, and the reclaim, which looks at all that are running: they
-- are never many. Only an index can be insisted on: with the statistics of a table that was short when it was analyzed, SQLite
-- would rather read all of the table than look for ids in it.
CREATE INDEX errand_jobs_running ON errand_jobs (id) WHERE status = 'running';
-- Serves the look at the dead, newest first, and Redrive.
CREATE INDEX errand_jobs_dead ON errand_jobs (id) WHERE status = 'dead';
-- One live job a key.
CREATE UNIQUE INDEX errand_jobs_key ON errand_jobs (queue, job_key)
    WHERE job_key IS NOT NULL AND status IN ('pending', 'running');

-- Where jobs go instead of being deleted, if Options say so.
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
