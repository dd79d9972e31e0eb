-- The record of migrations, in a schema that exists.
CREATE TABLE errand.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
