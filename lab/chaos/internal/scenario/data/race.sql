-- Stops a statement of errand's at the row of a certain job, without changing the statement. A session with the setting
-- chaos.stop_at stops at that place until no other session holds the place's advisory lock.
-- 'seen': the statement's snapshot has the row, and it is not locked yet. A policy runs while rows are read.
-- 'locked': the row is locked, and not changed yet. A trigger runs then.
CREATE SCHEMA chaos;
CREATE TABLE chaos.subject (id bigint);

-- A lock_timeout of errand's statements is not meant for this lock.
CREATE FUNCTION chaos.stop(place text, job bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET lock_timeout = 0 AS $$
BEGIN
    IF current_setting('chaos.stop_at', true) = place AND EXISTS (SELECT FROM chaos.subject AS s WHERE s.id = job) THEN
        PERFORM pg_advisory_lock_shared(hashtext(place));
        PERFORM pg_advisory_unlock_shared(hashtext(place));
    END IF;
    RETURN true;
END
$$;

CREATE FUNCTION chaos.locked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM chaos.stop('locked', OLD.id);
    RETURN coalesce(NEW, OLD);
END
$$;
CREATE TRIGGER locked BEFORE UPDATE OR DELETE ON errand.jobs FOR EACH ROW EXECUTE FUNCTION chaos.locked();

-- Policies do not apply to the table's owner or a superuser. They apply to this role.
CREATE ROLE chaos_seen NOLOGIN;
GRANT USAGE ON SCHEMA errand, chaos TO chaos_seen;
GRANT ALL ON ALL TABLES IN SCHEMA errand TO chaos_seen;
GRANT ALL ON ALL SEQUENCES IN SCHEMA errand TO chaos_seen;
ALTER TABLE errand.jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON errand.jobs TO chaos_seen USING (chaos.stop('seen', id)) WITH CHECK (true);
