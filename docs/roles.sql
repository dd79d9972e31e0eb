-- Roles for errand, each with the rights that its work needs and no others. This is plain SQL for psql or for a step of
-- your migration tool, to be run in one transaction after errand's migrations:
--
--     psql -X -1 -v ON_ERROR_STOP=1 -f docs/roles.sql "$DATABASE_URL"
--
-- A migration tool has to send it as a whole, like errand's migrations. For goose it needs StatementBegin and
-- StatementEnd around it: goose splits other text at each semicolon. This writes such a file:
--
--     errand migrate print postgres --roles --dir migrations --format goose
--
-- Run it once, and once more with each release whose migrations need new rights: the table in docs/schema.md says
-- which do. A migration tool needs a new file for that, with the text of that release, after errand's new migrations.
-- The text may run any number of times. It takes away rights in the schema that it does not grant.
--
-- If errand's tables are in a schema of another name, such as orders, let errand write the text with that name. Its
-- roles are then orders_migrator, orders_worker and so on, so that no service may touch the jobs of another:
--
--     errand migrate print postgres --schema orders --roles
--
-- For other names, replace these words wherever they stand: errand_migrator, errand_enqueuer, errand_worker,
-- errand_observer, errand_operator, and errand alone, which is the schema. A name that needs quotes is replaced with
-- its quotes.
--
-- Roles belong to the whole server. A member of errand_worker works, and reads payloads, in each database of the server
-- in which this text has run. If several databases are not to share that (two services, staging beside production),
-- use other names in each, or schemas of other names.
--
-- The user that runs this is a superuser, or owns the schema. An owner that is none needs CREATEROLE, or all five roles
-- are there before, and it is a member of the migrating role. It becomes one here, to run later migrations. If the
-- user of your migration tool is to stay the owner, let it be the migrating role: put its name for errand_migrator.
--
-- The roles cannot log in. Grant them to the users that can: GRANT errand_enqueuer TO shop. A program whose handlers
-- enqueue needs two of them. A program that calls postgres.Migrate puts ?role=errand_migrator in its URL, which pgx and
-- lib/pq pass on. backend/postgres/roles_test.go tests what each role may do, and may not.

DO $$
BEGIN
    IF to_regclass('errand.migrations') IS NULL THEN
        RAISE EXCEPTION 'the schema has no tables yet: run the migrations first';
    ELSIF (SELECT max(version) FROM errand.migrations) < 17 THEN -- the last version that needs new rights
        RAISE EXCEPTION 'the schema has no version 17 yet: run the migrations first';
    ELSIF has_schema_privilege('public', to_regnamespace('public'), 'CREATE') THEN
        RAISE WARNING 'every role may create functions in the schema public, as before PostgreSQL 15'
            USING HINT = 'A session that has public on its search_path may call them in place of the server''s own. '
                'Consider: REVOKE CREATE ON SCHEMA public FROM PUBLIC';
    END IF;
    -- Another database of the server may make them at the same time.
    IF to_regrole('errand_migrator') IS NULL THEN
        BEGIN CREATE ROLE errand_migrator NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END;
    END IF;
    IF to_regrole('errand_enqueuer') IS NULL THEN
        BEGIN CREATE ROLE errand_enqueuer NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END;
    END IF;
    IF to_regrole('errand_worker') IS NULL THEN
        BEGIN CREATE ROLE errand_worker NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END;
    END IF;
    IF to_regrole('errand_observer') IS NULL THEN
        BEGIN CREATE ROLE errand_observer NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END;
    END IF;
    IF to_regrole('errand_operator') IS NULL THEN
        BEGIN CREATE ROLE errand_operator NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END;
    END IF;
    IF NOT pg_has_role('errand_migrator'::regrole, 'USAGE') THEN
        BEGIN
            GRANT errand_migrator TO CURRENT_USER;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN -- made at the same time, too
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'the role % exists, and the user % is no member of it: let a superuser GRANT % TO %',
                    'errand_migrator'::regrole, current_user, 'errand_migrator'::regrole, quote_ident(current_user)
                    USING ERRCODE = 'insufficient_privilege';
        END;
    END IF;
END
$$;

-- The schema and everything in it belong to the migrating role.
DO $$
DECLARE
    change text;
BEGIN
    FOR change IN
        SELECT format('ALTER %s %s OWNER TO %s', kind, name, 'errand_migrator'::regrole)
        FROM (
            SELECT 1, 'SCHEMA', oid::regnamespace::text, nspowner, oid FROM pg_namespace
            UNION ALL
            SELECT 2, CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, oid::regclass::text, relowner, relnamespace
            FROM pg_class c
            WHERE relkind IN ('r', 'S')
                -- a sequence goes with its table
                AND NOT EXISTS (
                    SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.objsubid = 0 AND d.deptype IN ('a', 'i'))
            UNION ALL
            SELECT 2, 'TYPE', oid::regtype::text, typowner, typnamespace FROM pg_type WHERE typtype IN ('e', 'd')
            UNION ALL
            SELECT 2, 'ROUTINE', oid::regprocedure::text, proowner, pronamespace FROM pg_proc
        ) AS owned (step, kind, name, owner, namespace)
        WHERE namespace = 'errand'::regnamespace AND owner <> 'errand_migrator'::regrole
        ORDER BY step
    LOOP
        EXECUTE change;
    END LOOP;
END
$$;

REVOKE ALL ON SCHEMA errand FROM PUBLIC, errand_enqueuer, errand_worker, errand_observer, errand_operator;
REVOKE ALL ON ALL TABLES IN SCHEMA errand FROM PUBLIC, errand_enqueuer, errand_worker, errand_observer, errand_operator;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA errand FROM PUBLIC, errand_enqueuer, errand_worker, errand_observer, errand_operator;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA errand FROM PUBLIC, errand_enqueuer, errand_worker, errand_observer, errand_operator;

-- Every role may ask for the schema's version, and which sequences are behind, as postgres.Check does.
GRANT USAGE ON SCHEMA errand TO errand_enqueuer, errand_worker, errand_observer, errand_operator;
GRANT SELECT (version) ON errand.migrations TO errand_enqueuer, errand_worker, errand_observer, errand_operator;
GRANT EXECUTE ON FUNCTION errand.sequences_behind TO errand_enqueuer, errand_worker, errand_observer, errand_operator;

-- Enqueueing: postgres.Backend's Enqueue and the SQL function. This role writes jobs only as pending and not held,
-- and within the bounds of the table's triggers. It reads no payload, no header and no error. It reads ids, queues,
-- keys and statuses, because keys are compared with those of live jobs. It chooses no id: insert_keyed draws the ids
-- of a batch with keys. insert_replacing does so, too, and puts a new job in the place of a waiting one whose key
-- the caller knows.
GRANT INSERT (queue, kind, payload, priority, scheduled_at, max_attempts, job_key, headers, job_group, ordered, cost)
    ON errand.jobs TO errand_enqueuer;
GRANT SELECT (id, queue, job_key, status) ON errand.jobs TO errand_enqueuer;
GRANT SELECT (queue, since) ON errand.sleepers TO errand_enqueuer;
GRANT EXECUTE ON FUNCTION errand.enqueue, errand.payload_problem, errand.insert_keyed, errand.insert_replacing
    TO errand_enqueuer;
-- Setting and declaring schedules, and reading what they enqueue.
GRANT SELECT, INSERT, UPDATE, DELETE ON errand.schedules TO errand_enqueuer;

-- Working: all that a queue.Worker does, and Redrive and the Inspector. This role cannot make jobs, nor change what
-- they are. With the enqueueing role it also receives jobs of other backends, which keep their created_at.
GRANT EXECUTE ON FUNCTION errand.lock_due, errand.lock_ordered, errand.claim_ordered TO errand_worker;
GRANT SELECT, DELETE ON errand.jobs TO errand_worker;
GRANT UPDATE (
    status, attempts, scheduled_at, last_error, locked_at, locked_by, locked_until, fence, updated_at, started_at,
    finished_at, redriven_at, redrives, cancel_at, history, limited, created_at
) ON errand.jobs TO errand_worker;
GRANT USAGE ON SEQUENCE errand.fences TO errand_worker;
GRANT SELECT, DELETE ON errand.sleepers TO errand_worker;
GRANT INSERT (queue, worker, registration), UPDATE (registration, since) ON errand.sleepers TO errand_worker;
GRANT INSERT ON errand.jobs_archive TO errand_worker;
-- Pausing kinds, and reading which are paused.
GRANT SELECT, INSERT (kind), DELETE ON errand.paused_kinds TO errand_worker;
GRANT SELECT ON errand.paused_kinds TO errand_observer;
-- Schedules. To fire them, a worker's user needs the enqueueing role as well.
GRANT SELECT, UPDATE (next_at, last_tick, last_job, skipped) ON errand.schedules TO errand_worker;
-- Rules: to keep them, and to set them.
GRANT EXECUTE ON FUNCTION errand.claim_limited, errand.lock_turns, errand.lock_group, errand.group_jobs,
    errand.lock_spans, errand.mark_limited, errand.rules_changed, errand.set_rules, errand.pause_rule, errand.apply_rules,
    errand.nanoseconds, errand.bucket_full, errand.bucket_wait, errand.spend, errand.lock_claims TO errand_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON errand.rules, errand.limited_queues, errand.tokens TO errand_worker;
GRANT SELECT, UPDATE ON errand.rules_version TO errand_worker;
-- The audit log: this role appends to it, and an observer reads it. Neither may change it, or choose a time.
GRANT INSERT (actor, action, selection, count, reason, job_id) ON errand.audit TO errand_worker;
GRANT SELECT ON errand.audit TO errand_observer;
-- The output and progress of jobs.
GRANT SELECT, INSERT, UPDATE (output, progress, progress_at), DELETE ON errand.results TO errand_worker;
-- The records of live workers, and what runs came to.
GRANT SELECT, INSERT, UPDATE, DELETE ON errand.workers, errand.stats TO errand_worker;
GRANT SELECT ON errand.workers, errand.stats TO errand_observer;
-- The keys of middleware.SQLDedup, and the sources of jobs that were received.
GRANT SELECT, INSERT, UPDATE (until), DELETE ON errand.dedup TO errand_worker;

-- Observing: the Inspector and Backlogs, which telemetry's Observe reads, and SELECT. This role reads every column but
-- payload and headers: the Inspector's jobs have neither, and Unreadable says so. last_error, history and job_key
-- hold what handlers and enqueuers put there, so a secret does not belong in them.
GRANT SELECT (
    id, queue, kind, status, priority, scheduled_at, attempts, max_attempts, job_key, last_error, locked_at, locked_by,
    locked_until, fence, created_at, updated_at, started_at, finished_at, redriven_at, redrives, job_group, ordered,
    cancel_at, history, limited, cost, xmax
) ON errand.jobs TO errand_observer;
-- Which transaction has locked a job (xmax), and which ID was given out last, for errand explain.
GRANT SELECT ON SEQUENCE errand.jobs_id_seq TO errand_observer;
-- Of schedules it reads no payload.
GRANT SELECT (
    name, spec, zone, kind, queue, missed, grace, overlap, paused, next_at, last_tick, last_job, skipped, version,
    declared, release, edited, deleted, updated_at
) ON errand.schedules TO errand_observer;
GRANT SELECT ON errand.rules, errand.tokens TO errand_observer;

-- Operating: what a dashboard or a command line needs to act. Cancel, Redrive, Edit, Delete, pauses, and the audit log.
-- This role changes jobs that others have made. It reads of them by what they are chosen, and no payload, header, error
-- or result. To list, grant its users errand_observer as well.
GRANT SELECT (
    id, queue, kind, status, priority, scheduled_at, max_attempts, job_key, job_group, ordered, locked_by, updated_at,
    finished_at, redrives, fence
) ON errand.jobs TO errand_operator;
GRANT UPDATE (
    status, queue, payload, priority, scheduled_at, attempts, max_attempts, last_error, locked_at, locked_by,
    locked_until, fence, updated_at, started_at, finished_at, cancel_at, redriven_at, redrives
) ON errand.jobs TO errand_operator;
GRANT DELETE ON errand.jobs TO errand_operator;
GRANT SELECT (job_id), DELETE ON errand.results TO errand_operator;
GRANT SELECT (queue, since) ON errand.sleepers TO errand_operator;
GRANT SELECT, INSERT (kind), DELETE ON errand.paused_kinds TO errand_operator;
GRANT EXECUTE ON FUNCTION errand.pause_rule TO errand_operator;
GRANT SELECT (queue, job_group, paused) ON errand.rules TO errand_operator; -- what is paused already
GRANT SELECT (
    name, spec, zone, kind, queue, missed, grace, overlap, paused, next_at, last_tick, last_job, skipped, version,
    declared, release, edited, deleted, updated_at
) ON errand.schedules TO errand_operator;
GRANT UPDATE (paused, next_at, version, edited, updated_at) ON errand.schedules TO errand_operator;
GRANT INSERT (actor, action, selection, count, reason, job_id) ON errand.audit TO errand_operator;
