-- The audit log (queue.Auditor): what people and programs have done to jobs. errand only appends to it.
CREATE TABLE errand_audit (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    action    TEXT NOT NULL,
    selection TEXT,             -- what the action was meant for; NULL for none
    count     INTEGER NOT NULL, -- how many jobs it has changed
    reason    TEXT,             -- NULL for none
    job_id    INTEGER           -- NULL unless it was meant for one job
) STRICT;

-- Serves the list of what was done to one job.
CREATE INDEX errand_audit_job ON errand_audit (job_id) WHERE job_id IS NOT NULL;
