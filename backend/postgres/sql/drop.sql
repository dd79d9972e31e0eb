-- Removes what the migrations have made, and nothing else. It fails and changes nothing if other objects depend on
-- errand's, such as views. The schema itself stays if something else is in it, or if it belongs to another role.
DO $$
DECLARE
    dependents text;
BEGIN
    DROP FUNCTION IF EXISTS -- with the types of their arguments: others of these names are not errand's
        errand.payload_problem(jsonb),
        errand.insert_keyed(text[], text[], text, integer[], bigint[], timestamptz[], integer[], text[], text[], text[],
            boolean[], integer[]),
        errand.insert_replacing(text[], text[], text, integer[], bigint[], timestamptz[], integer[], text[], text[], text[],
            boolean[], boolean[], bigint[], integer[]),
        errand.enqueue(text, text, jsonb, integer, interval, timestamptz, integer, text, jsonb, text, text, interval,
            boolean, integer),
        errand.lock_due(text[], text[], integer, text, integer[], timestamptz[], bigint[], integer[], timestamptz[], boolean),
        errand.lock_ordered(text, text[], integer, text, text),
        errand.claim_ordered(text, text[], integer, bigint, text, bigint, text),
        errand.apply_rules(text[], boolean),
        errand.set_rules(text[], text[], boolean[], integer[], integer[], integer[], boolean[], integer[], bigint[], integer[],
            integer[], bigint[], integer[], boolean),
        errand.pause_rule(text, text, boolean, boolean),
        errand.rules_changed(),
        errand.group_jobs(text, text, integer, text, text[], timestamptz, integer),
        errand.lock_group(text, text, text[], integer),
        errand.lock_spans(text, text[], integer, boolean, jsonb),
        errand.nanoseconds(timestamptz),
        errand.bucket_full(text, text, bigint, bigint, bigint),
        errand.bucket_wait(bigint, bigint, bigint, bigint),
        errand.spend(text, tid[], bigint, bigint, bigint, bigint, bigint),
        errand.lock_turns(text, text[], integer, integer, integer, text[], text, bigint, bigint, bigint, jsonb),
        errand.mark_limited(text),
        errand.claim_limited(text, text[], integer, bigint, text, bigint, bigint, text, text, jsonb),
        errand.sequences_behind(),
        errand.lock_claims(text, boolean, bigint);
    DROP TABLE IF EXISTS
        errand.jobs, errand.jobs_archive, errand.results, errand.dedup, errand.sleepers,
        errand.rules, errand.limited_queues, errand.rules_version, errand.tokens, errand.paused_kinds,
        errand.schedules, errand.workers, errand.audit, errand.stats, errand.migrations;
    DROP FUNCTION IF EXISTS errand.refuse_size(); -- triggers of jobs call it
    DROP SEQUENCE IF EXISTS errand.fences;
    DROP DOMAIN IF EXISTS errand.job_name, errand.due_time, errand.attempt_limit;
    DROP TYPE IF EXISTS errand.job_status;
EXCEPTION WHEN dependent_objects_still_exist THEN
    GET STACKED DIAGNOSTICS dependents = PG_EXCEPTION_DETAIL;
    RAISE EXCEPTION 'other objects depend on errand''s: %', replace(dependents, E'\n', '; ')
        USING ERRCODE = 'dependent_objects_still_exist';
END
$$;
DO $$
BEGIN
    EXECUTE format('DROP SCHEMA %I', 'errand');
EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege OR invalid_schema_name THEN
    NULL;
END
$$;
