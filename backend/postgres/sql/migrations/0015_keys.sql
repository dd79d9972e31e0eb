-- Every table has a primary key. Under a publication FOR ALL TABLES the server refuses to change the rows of a table
-- that has none.
-- rules_version has one row, and its key no column that changes.
ALTER TABLE errand.rules_version ADD COLUMN is_only boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (is_only);

-- An id may be in the archive twice: somebody may have put a job back into the table. A row of the same id and of the
-- same updated_at is the same row. An index of this name that was made CONCURRENTLY before becomes the key, and nothing
-- is built here. An archive that somebody has partitioned, or given a key, keeps what it has. One that has two equal rows
-- gets no key, and the server names whole rows to those who read the publication.
DO $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'errand.jobs_archive'::regclass) <> 'r'
        OR EXISTS (SELECT FROM pg_index WHERE indrelid = 'errand.jobs_archive'::regclass AND indisprimary)
    THEN
        RETURN;
    ELSIF to_regclass('errand.jobs_archive_pkey') IS NOT NULL THEN
        ALTER TABLE errand.jobs_archive ADD CONSTRAINT jobs_archive_pkey PRIMARY KEY USING INDEX jobs_archive_pkey;
    ELSE
        ALTER TABLE errand.jobs_archive ADD PRIMARY KEY (id, updated_at);
    END IF;
EXCEPTION
    WHEN unique_violation THEN
        ALTER TABLE errand.jobs_archive REPLICA IDENTITY FULL;
END
$$;
