-- Appends an entry to the audit log: ?1 now, ?2 actor, ?3 action, ?4 selection, ?5 count, ?6 reason, ?7 the job's id.
INSERT INTO errand_audit (at, actor, action, selection, count, reason, job_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);
