-- The rules of limited queues; job_group is '' for the rule of the queue itself. See queue.Rule.
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

-- The bucket of each rate that is not full: that of a group, or of the queue for ''. Times are nanoseconds since 1970.
CREATE TABLE errand_tokens (
    queue     TEXT NOT NULL,
    job_group TEXT NOT NULL,
    at        INTEGER NOT NULL, -- when it was last spent from
    full_at   INTEGER NOT NULL, -- when it is full again if nothing is spent
    each      INTEGER NOT NULL, -- how long a token took at that time
    until     INTEGER NOT NULL, -- there is no token before
    PRIMARY KEY (queue, job_group)
) STRICT, WITHOUT ROWID;

-- The kinds of which workers claim no jobs (queue.Pauser).
CREATE TABLE errand_paused_kinds (
    kind  TEXT PRIMARY KEY,
    since INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT;
