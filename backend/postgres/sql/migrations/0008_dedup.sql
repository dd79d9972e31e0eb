-- The keys that middleware.SQLDedup remembers, and when their windows end.
CREATE TABLE errand.dedup (
    key   text PRIMARY KEY,
    until timestamptz NOT NULL
);
CREATE INDEX dedup_until_idx ON errand.dedup (until);
