-- The keys whose effects have happened, and when their windows end.
CREATE TABLE IF NOT EXISTS errand_dedup (
    key   text PRIMARY KEY,
    until timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS errand_dedup_until_idx ON errand_dedup (until);
