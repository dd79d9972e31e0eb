-- The events, as the processes saw them. A process writes the row before it goes on. The time is this server's.
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
CREATE TABLE notes ( -- any other event of a run
    number  bigint NOT NULL,
    attempt integer NOT NULL,
    worker  text NOT NULL,
    text    text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
