-- The record of the steps that have run.
CREATE TABLE errand_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT;
