CREATE TABLE errand_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT;
CREATE TABLE errand_jobs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    queue        TEXT NOT NULL DEFAULT 'default' CHECK (length(queue) BETWEEN 1 AND 200),
    -- pending, running, completed, dead, held or cancelled; a CHECK would slow claims by a quarter
    status       TEXT NOT NULL DEFAULT 'pending',
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
    job_group    TEXT,                       -- what it shares with other jobs of its queue; NULL for none
    cost         INTEGER,                    -- what it takes of a rate; NULL for 1
    started_at   INTEGER,                    -- when this run was claimed; of an ended job, the last one
    finished_at  INTEGER,                    -- when the job was completed, dead or cancelled
    cancel_at    INTEGER,                    -- when somebody asked for the job to be cancelled
    redriven_at  INTEGER,                    -- the last time
    redrives     INTEGER,                    -- how often; NULL for never
    last_error   TEXT,
    history      TEXT,                       -- the last failures (queue.Failure), a JSON array; NULL until the first
    headers      TEXT,                       -- a JSON object of strings, or NULL
    payload      TEXT NOT NULL DEFAULT 'null'
) STRICT;
CREATE TABLE errand_fences (
    last    INTEGER NOT NULL,
    cancels INTEGER NOT NULL, -- how many requests to cancel running jobs there were; workers learn of others' by it
    rules   INTEGER NOT NULL  -- the version of the rules, which every change counts up
) STRICT;
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
    job_group    TEXT,
    cost         INTEGER,
    started_at   INTEGER,
    finished_at  INTEGER,
    cancel_at    INTEGER,
    redriven_at  INTEGER,
    redrives     INTEGER,
    last_error   TEXT,
    history      TEXT,
    headers      TEXT,
    payload      TEXT NOT NULL
) STRICT;
CREATE TABLE errand_results (
    job_id      INTEGER PRIMARY KEY,
    output      TEXT,
    progress    TEXT,
    progress_at INTEGER
) STRICT;
CREATE TABLE errand_rules (
    queue     TEXT NOT NULL,
    job_group TEXT NOT NULL,
    paused    INTEGER NOT NULL,
    running   INTEGER NOT NULL, -- 0 for any number
    per_group INTEGER NOT NULL, -- 0 for any number, or for the queue's; -1 for any number
    share     INTEGER NOT NULL, -- 0 for 1, or for the queue's
    hold_dead INTEGER NOT NULL DEFAULT 0, -- an ordered job that would be dead is held; in rules of queues only
    -- The rate of the queue, and that of its groups or of the group: jobs, the time in nanoseconds, burst.
    rate_jobs        INTEGER NOT NULL DEFAULT 0,
    rate_per         INTEGER NOT NULL DEFAULT 0,
    rate_burst       INTEGER NOT NULL DEFAULT 0,
    group_rate_jobs  INTEGER NOT NULL DEFAULT 0,
    group_rate_per   INTEGER NOT NULL DEFAULT 0,
    group_rate_burst INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, job_group)
) STRICT, WITHOUT ROWID;
CREATE TABLE errand_tokens (
    queue     TEXT NOT NULL,
    job_group TEXT NOT NULL,
    at        INTEGER NOT NULL, -- when it was last spent from
    full_at   INTEGER NOT NULL, -- when it is full again if nothing is spent
    each      INTEGER NOT NULL, -- how long a token took at that time
    until     INTEGER NOT NULL, -- there is no token before
    PRIMARY KEY (queue, job_group)
) STRICT, WITHOUT ROWID;
CREATE TABLE errand_paused_kinds (
    kind  TEXT PRIMARY KEY,
    since INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT;
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
CREATE TABLE errand_workers (
    worker      TEXT PRIMARY KEY,
    info        TEXT NOT NULL,    -- a queue.WorkerInfo in JSON
    started_at  INTEGER NOT NULL,
    claimed_at  INTEGER,          -- the last claim that has succeeded; NULL: none has
    draining_at INTEGER,          -- when the worker was told to stop; NULL: it was not
    seen_at     INTEGER NOT NULL  -- the last report
) STRICT;
CREATE TABLE errand_audit (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    action    TEXT NOT NULL,
    selection TEXT,             -- what the action was meant for; NULL for none
    count     INTEGER NOT NULL, -- how many jobs it has changed
    reason    TEXT,             -- NULL for none
    job_id    INTEGER           -- NULL unless it was meant for one job
) STRICT;
CREATE TABLE errand_stats (
    minute     INTEGER NOT NULL, -- microseconds, like all times
    queue      TEXT NOT NULL,
    kind       TEXT NOT NULL,
    done       INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    dead       INTEGER NOT NULL,
    lost       INTEGER NOT NULL,
    ran        INTEGER NOT NULL, -- microseconds that handlers took in total
    waited     INTEGER NOT NULL, -- microseconds that jobs waited for them in total
    run_times  TEXT NOT NULL,    -- histograms of both
    wait_times TEXT NOT NULL,
    PRIMARY KEY (minute, queue, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE errand_received (
    source TEXT PRIMARY KEY,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX errand_jobs_pending ON errand_jobs (queue, priority, scheduled_at) WHERE status = 'pending';
CREATE INDEX errand_jobs_running ON errand_jobs (id) WHERE status = 'running';
CREATE INDEX errand_jobs_dead ON errand_jobs (id) WHERE status = 'dead';
CREATE INDEX errand_jobs_held ON errand_jobs (id) WHERE status = 'held';
CREATE INDEX errand_jobs_cancelled ON errand_jobs (id) WHERE status = 'cancelled';
CREATE UNIQUE INDEX errand_jobs_key ON errand_jobs (queue, job_key)
    WHERE job_key IS NOT NULL AND status IN ('pending', 'running', 'held');
CREATE INDEX errand_jobs_group ON errand_jobs (queue, job_group, priority, scheduled_at)
    WHERE job_group IS NOT NULL AND priority < 2147483647 AND status = 'pending';
CREATE INDEX errand_jobs_ordered ON errand_jobs (queue, job_group)
    WHERE priority = 2147483647 AND job_group IS NOT NULL AND status IN ('pending', 'held');
CREATE UNIQUE INDEX errand_jobs_ordered_one ON errand_jobs (queue, job_group)
    WHERE priority = 2147483647 AND job_group IS NOT NULL AND status = 'running';
CREATE INDEX errand_schedules_next ON errand_schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX errand_audit_job ON errand_audit (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX errand_received_until ON errand_received (until);
INSERT INTO "errand_migrations" VALUES (1, 'jobs', 1795892680000000);
INSERT INTO "errand_migrations" VALUES (2, 'rules', 1795892680000000);
INSERT INTO "errand_migrations" VALUES (3, 'schedules', 1795892680000000);
INSERT INTO "errand_migrations" VALUES (4, 'workers', 1795892680000000);
INSERT INTO "errand_migrations" VALUES (5, 'audit', 1795892680000000);
INSERT INTO "errand_migrations" VALUES (6, 'stats', 1795892680000000);
INSERT INTO "errand_migrations" VALUES (7, 'received', 1795892680000000);
INSERT INTO "errand_jobs" VALUES (3, 'default', 'completed', 0, 1795892680510896, 1, 5, 1, NULL, NULL, 'of then', 1795892680510896, 1795892680512447, 'greeting', 'done', NULL, NULL, 1795892680511905, 1795892680512447, NULL, NULL, NULL, NULL, NULL, NULL, '"done"');
INSERT INTO "errand_jobs" VALUES (4, 'default', 'dead', 0, 1795892680512966, 1, 5, 0, NULL, NULL, NULL, 1795892680512966, 1795892680513958, 'greeting', NULL, NULL, NULL, 1795892680513488, 1795892680513958, NULL, NULL, NULL, 'it broke', '[{"at":"2026-11-28T19:04:40.513958Z","attempt":1,"worker":"of then","error":"it broke","took_ns":470000}]', NULL, '"redriven"');
INSERT INTO "errand_jobs" VALUES (5, 'default', 'pending', 0, 1795892681515412, 1, 5, 0, NULL, NULL, NULL, 1795892680514464, 1795892680515411, 'greeting', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'a failure', '[{"at":"2026-11-28T19:04:40.515411Z","attempt":1,"worker":"of then","error":"a failure","took_ns":466000}]', NULL, '"failed once"');
INSERT INTO "errand_jobs" VALUES (7, 'default', 'running', 0, 1795892680515972, 1, 5, 4, 1795892680516548, 1795892681516548, 'of then', 1795892680515972, 1795892680516548, 'greeting', NULL, NULL, NULL, 1795892680516548, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"of a worker that died"');
INSERT INTO "errand_jobs" VALUES (8, 'default', 'pending', 0, 1795892680517026, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517026, 'greeting', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"plain"');
INSERT INTO "errand_jobs" VALUES (9, 'default', 'pending', 0, 1795892681517027, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517026, 'greeting', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"delayed"');
INSERT INTO "errand_jobs" VALUES (10, 'default', 'pending', 0, 4922899200000000, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517026, 'greeting', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"of the next century"');
INSERT INTO "errand_jobs" VALUES (11, 'default', 'pending', 2147483647, 1795892680517026, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517026, 'greeting', NULL, 'a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"first of its group"');
INSERT INTO "errand_jobs" VALUES (12, 'default', 'pending', 2147483647, 1795892680517026, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517026, 'greeting', NULL, 'a', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"second of its group"');
INSERT INTO "errand_jobs" VALUES (13, 'default', 'pending', 0, 1795892680517026, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517026, 'greeting', 'key', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"held by its key"');
INSERT INTO "errand_jobs" VALUES (14, 'limited', 'pending', 0, 1795892680517026, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517026, 'greeting', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"limited"');
INSERT INTO "errand_jobs" VALUES (15, 'paused', 'pending', 0, 1795892680517026, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517026, 'greeting', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '"paused"');
INSERT INTO "errand_jobs" VALUES (16, 'default', 'cancelled', 0, 1795892680517026, 0, 5, 0, NULL, NULL, NULL, 1795892680517026, 1795892680517995, 'greeting', 'unwanted', NULL, NULL, NULL, 1795892680517995, 1795892680517995, NULL, NULL, NULL, NULL, NULL, '"cancelled"');
INSERT INTO "errand_fences" VALUES (4, 0, 1);
INSERT INTO "errand_results" VALUES (3, '"an output"', NULL, NULL);
INSERT INTO "errand_rules" VALUES ('limited', '', 0, 1, 0, 0, 0, 100, 60000000000, 0, 0, 0, 0);
INSERT INTO "errand_rules" VALUES ('paused', '', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO "errand_schedules" VALUES ('yearly', '5 20 28 11 *', 'Europe/Berlin', '{"id":0,"queue":"","kind":"greeting","payload":"tick","priority":0,"max_attempts":0,"attempt":0}', 'last', 0, 0, 0, 1795892700000000, NULL, NULL, 0, 1, NULL, 0, 0, 0, 1795892680509794);
INSERT INTO "errand_audit" VALUES (1, 1795892680510525, 'ada', 'jobs.redrive', NULL, 3, NULL, NULL);
