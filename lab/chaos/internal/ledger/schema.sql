-- What happened, as the processes themselves saw it. Every row is written before they go on, and its time is this server's.
CREATE TABLE acked ( -- an enqueue was acknowledged
    id     bigint GENERATED ALWAYS AS IDENTITY,
    number bigint NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE starts ( -- a handler begins
    number  bigint NOT NULL,
    attempt integer NOT NULL,
    worker  text NOT NULL,
    pid     integer NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE effects ( -- a handler has done its work
    id      bigint GENERATED ALWAYS AS IDENTITY,
    number  bigint NOT NULL,
    attempt integer NOT NULL,
    worker  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE notes ( -- whatever else a scenario wants to know of a run
    number  bigint NOT NULL,
    attempt integer NOT NULL,
    worker  text NOT NULL,
    text    text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
