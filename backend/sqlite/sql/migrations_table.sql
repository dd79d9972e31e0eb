-- The record of migrations.
CREATE TABLE IF NOT EXISTS errand_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT;
