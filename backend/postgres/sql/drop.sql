-- Removes what the migrations have made, and nothing else. It fails and changes nothing if other objects depend on
-- errand's, such as views. The schema itself stays if something else is in it, or if it belongs to another role.
DO $$
DECLARE
    dependents text;
BEGIN
    DROP FUNCTION IF EXISTS
        errand.payload_problem, errand.insert_keyed, errand.insert_replacing, errand.enqueue,
        errand.lock_due, errand.lock_ordered, errand.claim_ordered,
        errand.apply_rules, errand.set_rules, errand.pause_rule, errand.rules_changed,
        errand.group_jobs, errand.lock_group, errand.lock_spans, errand.nanoseconds, errand.bucket_full, errand.bucket_wait,
        errand.spend, errand.lock_turns, errand.mark_limited, errand.claim_limited;
    DROP TABLE IF EXISTS
        errand.jobs, errand.jobs_archive, errand.results, errand.dedup, errand.sleepers,
        errand.rules, errand.limited_queues, errand.rules_version, errand.tokens, errand.paused_kinds,
        errand.schedules, errand.workers, errand.audit, errand.stats, errand.migrations;
    DROP FUNCTION IF EXISTS errand.refuse_size; -- triggers of jobs call it
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
