-- Claims at most $1 due jobs for $2, found again by ctid, with the columns that a worker needs.
UPDATE errand.jobs AS j
SET
    status = 'running',
    attempts = j.attempts + 1,
    fence = (SELECT nextval('errand.fences')),
    locked_at = now(),
    locked_by = $2,
    locked_until = now() + interval '30 seconds',
    updated_at = now()
WHERE j.ctid = ANY (ARRAY(
    SELECT p.ctid
    FROM errand.jobs p
    WHERE p.queue = 'default' AND p.status = 'pending' AND p.scheduled_at <= now()
    ORDER BY p.priority, p.scheduled_at, p.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
))
RETURNING j.id, j.kind, j.payload, j.attempts, j.fence;
