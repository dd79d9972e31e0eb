-- Roles for errand, each with the rights that its work needs and no others. Run this with psql, as a superuser, or as
-- a role that has CREATEROLE and may CREATE in the database. That role becomes a member of the migrating role.
--
--     psql -f docs/roles.sql "$DATABASE_URL"                   # makes the roles, and the schema with its owner
--     DATABASE_URL="...?role=errand_migrator" ./migrate        # your program that calls postgres.Migrate
--     psql -f docs/roles.sql "$DATABASE_URL"                   # now that there are tables, grants the rights
--
-- Run it again after each later migration. It may be run any number of times, and takes away rights that it does not
-- grant. For other names: psql -v schema=jobs -v migrator=... -v enqueuer=... -v worker=... -v observer=...
--
-- The roles cannot log in. Grant them to the users that can: GRANT errand_enqueuer TO shop. A program whose handlers
-- enqueue needs two of them. Always migrate as the migrating role, so that everything belongs to it: put
-- ?role=errand_migrator in the URL, which pgx and lib/pq pass on. backend/postgres/roles_test.go tests what each role
-- may do, and may not.
\set ON_ERROR_STOP on
\if :{?schema}   \else \set schema   errand          \endif
\if :{?migrator} \else \set migrator errand_migrator \endif
\if :{?enqueuer} \else \set enqueuer errand_enqueuer \endif
\if :{?worker}   \else \set worker   errand_worker   \endif
\if :{?observer} \else \set observer errand_observer \endif
SET client_min_messages = warning;
SELECT coalesce(has_schema_privilege('public', to_regnamespace('public'), 'CREATE'), false) AS open \gset
\if :open
\echo 'Every role may create functions in the schema public, as before PostgreSQL 15. A session that has public on its'
\echo 'search_path may call them in place of the server''s own. Consider: REVOKE CREATE ON SCHEMA public FROM PUBLIC'
\endif
BEGIN;

SELECT format('CREATE ROLE %I NOLOGIN', name)
FROM unnest(ARRAY[:'migrator', :'enqueuer', :'worker', :'observer']) AS name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
SELECT format('GRANT %I TO CURRENT_USER', :'migrator')
FROM pg_roles WHERE rolname = current_user AND NOT rolsuper \gexec

-- The schema and everything in it belong to the migrating role from now on, even if another role has migrated before.
CREATE SCHEMA IF NOT EXISTS :"schema";
ALTER SCHEMA :"schema" OWNER TO :"migrator";
SELECT format('ALTER %s %s OWNER TO %I', kind, name, :'migrator')
FROM (
    SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, c.relnamespace
    FROM pg_class c
    WHERE c.relkind IN ('r', 'S')
        -- a sequence that goes with its table
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i')
    UNION ALL SELECT 'TYPE', t.oid::regtype::text, t.typnamespace FROM pg_type t WHERE t.typtype = 'e'
    UNION ALL SELECT 'FUNCTION', p.oid::regprocedure::text, p.pronamespace FROM pg_proc p
) AS owned (kind, name, namespace)
WHERE namespace = (SELECT oid FROM pg_namespace WHERE nspname = :'schema') \gexec

REVOKE ALL ON SCHEMA :"schema" FROM PUBLIC, :"enqueuer", :"worker", :"observer";
REVOKE ALL ON ALL TABLES IN SCHEMA :"schema" FROM PUBLIC, :"enqueuer", :"worker", :"observer";
REVOKE ALL ON ALL SEQUENCES IN SCHEMA :"schema" FROM PUBLIC, :"enqueuer", :"worker", :"observer";
GRANT USAGE ON SCHEMA :"schema" TO :"enqueuer", :"worker", :"observer";

SELECT to_regclass(format('%I.jobs', :'schema')) IS NULL AS empty \gset
\if :empty
COMMIT;
\echo 'The roles and the schema are there. Migrate as the migrating role, and then run this again.'
\quit
\endif

-- Every role may ask for the schema's version, as postgres.Check does. After another migration tool there is no such
-- table.
SELECT format('GRANT SELECT (version) ON %s TO %I, %I, %I', record, :'enqueuer', :'worker', :'observer')
FROM to_regclass(format('%I.migrations', :'schema')) AS record
WHERE record IS NOT NULL \gexec

-- Enqueueing: postgres.Backend's Enqueue and the SQL function. This role writes jobs only as pending and not held. It
-- reads no payload, no header and no error. It reads ids, queues, keys and statuses, because keys are compared with
-- those of live jobs. It chooses no id: insert_keyed draws the ids of a batch with keys.
REVOKE ALL ON FUNCTION :"schema".insert_keyed FROM PUBLIC, :"worker", :"observer";
GRANT EXECUTE ON FUNCTION :"schema".insert_keyed TO :"enqueuer";
GRANT INSERT (queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers)
    ON :"schema".jobs TO :"enqueuer";
GRANT SELECT (id, queue, job_key, status) ON :"schema".jobs TO :"enqueuer";
GRANT SELECT (queue, since) ON :"schema".sleepers TO :"enqueuer";

-- Working: all that a queue.Worker does, and Redrive and the Inspector. This role cannot make jobs, nor change what
-- they are.
GRANT SELECT, DELETE ON :"schema".jobs TO :"worker";
GRANT UPDATE (
    status, attempts, scheduled_at, last_error, locked_at, locked_by, locked_until, fence, updated_at, started_at,
    finished_at, redriven_at, redrives
) ON :"schema".jobs TO :"worker";
GRANT USAGE ON SEQUENCE :"schema".fences TO :"worker";
GRANT SELECT, DELETE ON :"schema".sleepers TO :"worker";
GRANT INSERT (queue, worker, nap), UPDATE (nap, since) ON :"schema".sleepers TO :"worker";
GRANT INSERT ON :"schema".jobs_archive TO :"worker";

-- Observing: Counts and Backlogs, which telemetry's Observe reads, and every column but those in which an application
-- puts what it likes. The Inspector's Jobs and Job read these too, so an observer lists by SQL: SELECT id, kind,
-- status, attempts FROM errand.jobs.
GRANT SELECT (
    id, queue, kind, status, priority, scheduled_at, attempts, max_attempts, locked_at, locked_by, locked_until, fence,
    created_at, updated_at, started_at, finished_at, redriven_at, redrives
) ON :"schema".jobs TO :"observer";

COMMIT;
