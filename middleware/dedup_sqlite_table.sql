-- The keys whose effects have happened, and when their windows end, in microseconds since 1970.
CREATE TABLE IF NOT EXISTS errand_dedup (
    key   TEXT PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS errand_dedup_until_idx ON errand_dedup (until);
