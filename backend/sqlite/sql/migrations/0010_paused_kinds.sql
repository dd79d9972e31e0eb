-- The kinds of which workers claim no jobs (queue.Pauser).
CREATE TABLE errand_paused_kinds (
    kind  TEXT PRIMARY KEY,
    since INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT;
