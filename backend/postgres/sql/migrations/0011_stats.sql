-- What runs came to, by minute, queue and kind (queue.Statistician). Workers add to it with their reports. A histogram
-- counts durations: below a millisecond, below 2, 4, 8 and so on (queue.Histogram); empty buckets at its end are left out.
CREATE TABLE errand.stats (
    minute     timestamptz NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    done       bigint NOT NULL,
    failed     bigint NOT NULL,
    dead       bigint NOT NULL,
    lost       bigint NOT NULL,
    ran        bigint NOT NULL,    -- microseconds that handlers took in total
    waited     bigint NOT NULL,    -- microseconds that jobs waited for them in total
    run_times  integer[] NOT NULL, -- histograms of both
    wait_times integer[] NOT NULL,
    PRIMARY KEY (minute, queue, kind)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
