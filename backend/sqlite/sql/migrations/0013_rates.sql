-- What a job takes of a rate; NULL for 1. See queue.Rate.
ALTER TABLE errand_jobs ADD COLUMN cost INTEGER;
ALTER TABLE errand_jobs_archive ADD COLUMN cost INTEGER;

-- The rate of the queue, and that of its groups or of the group: jobs, the time in nanoseconds, burst.
ALTER TABLE errand_rules ADD COLUMN rate_jobs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE errand_rules ADD COLUMN rate_per INTEGER NOT NULL DEFAULT 0;
ALTER TABLE errand_rules ADD COLUMN rate_burst INTEGER NOT NULL DEFAULT 0;
ALTER TABLE errand_rules ADD COLUMN group_rate_jobs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE errand_rules ADD COLUMN group_rate_per INTEGER NOT NULL DEFAULT 0;
ALTER TABLE errand_rules ADD COLUMN group_rate_burst INTEGER NOT NULL DEFAULT 0;

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
