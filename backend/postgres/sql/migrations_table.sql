-- The schema, unless it exists, and the record of the steps that have run. This begins the first migration.
DO $$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database''s encoding is %: errand needs UTF8', current_setting('server_encoding');
    ELSIF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'errand') THEN
        EXECUTE format('CREATE SCHEMA %I', 'errand');
    END IF;
END
$$;
CREATE TABLE errand.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
