-- The sources of the jobs that Receive has enqueued, and until when they are remembered.
CREATE TABLE errand_received (
    source TEXT PRIMARY KEY,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX errand_received_until ON errand_received (until);
