-- The record of the steps that have run. This begins the first migration.
CREATE TABLE errand_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT;
