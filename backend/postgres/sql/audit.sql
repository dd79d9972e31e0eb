-- Appends entries to the audit log: the arrays $1 actors, $2 actions, $3 selections, $4 counts, $5 reasons and $6 ids
-- of jobs, 0 for none. It returns nothing, so a role needs no right but to insert.
INSERT INTO errand.audit (actor, action, selection, count, reason, job_id)
SELECT e.actor, e.action, nullif(e.selection, ''), e.count, nullif(e.reason, ''), nullif(e.job_id, 0)
FROM unnest($1::text::text[], $2::text::text[], $3::text::text[], $4::text::bigint[], $5::text::text[], $6::text::bigint[])
    WITH ORDINALITY AS e (actor, action, selection, count, reason, job_id, number)
ORDER BY e.number;
