-- lock_claims takes the advisory locks of a queue's claims, those of claim_limited and lock_ordered, or of lock_ordered
-- only, until the transaction ends. It reports whether it has them: it waits for patience microseconds at most, because
-- a claim of several queues must not wait for long. It catches the error of a lock that does not come in time, which
-- would be in the server's log otherwise. Claims that wait have their turns in the order in which they came.
CREATE FUNCTION errand.lock_claims(queue_name text, is_limited boolean, patience bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    usual_timeout CONSTANT text := current_setting('lock_timeout');
    name_hash     CONSTANT integer := hashtext(queue_name);
BEGIN
    IF (NOT is_limited OR pg_try_advisory_xact_lock('errand.rules'::regclass::integer, name_hash))
        AND pg_try_advisory_xact_lock('errand.jobs_ordered_one_idx'::regclass::integer, name_hash) THEN
        RETURN true;
    ELSIF patience <= 0 THEN
        RETURN false;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', format('%sus', patience), true);
        IF is_limited THEN
            PERFORM pg_advisory_xact_lock('errand.rules'::regclass::integer, name_hash);
        END IF;
        PERFORM pg_advisory_xact_lock('errand.jobs_ordered_one_idx'::regclass::integer, name_hash);
        PERFORM set_config('lock_timeout', usual_timeout, true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    RETURN true;
END
$$;
