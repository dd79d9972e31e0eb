-- The version of the collation that the database was made with, and the one that the host has now.
-- From PostgreSQL 15 on.
SELECT coalesce(datcollversion, ''), coalesce(pg_database_collation_actual_version(oid), '')
FROM pg_database WHERE datname = current_database()
