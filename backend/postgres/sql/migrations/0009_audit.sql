-- The audit log (queue.Auditor): what people and programs have done to jobs. errand only appends to it: no statement
-- changes or deletes an entry, and the roles of docs/roles.sql may not.
CREATE TABLE errand.audit (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor     text NOT NULL,
    action    text NOT NULL,
    selection text,            -- what the action was meant for; NULL for none
    count     bigint NOT NULL, -- how many jobs it has changed
    reason    text,            -- NULL for none
    job_id    bigint           -- NULL unless it was meant for one job
);

-- For what was done to one job.
CREATE INDEX audit_job_idx ON errand.audit (job_id, id) WHERE job_id IS NOT NULL;
