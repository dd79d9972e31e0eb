-- The kinds of which workers claim no jobs (queue.Pauser).
CREATE TABLE errand.paused_kinds (
    kind  text COLLATE "C" PRIMARY KEY,
    since timestamptz NOT NULL DEFAULT now()
);
