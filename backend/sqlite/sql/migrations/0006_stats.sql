-- What runs came to, by minute, queue and kind (queue.Statistician). Workers add to it with their reports. A histogram is
-- a JSON array that counts durations: below a millisecond, below 2, 4, 8 and so on (queue.Histogram).
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
