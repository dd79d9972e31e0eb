-- The pending job of kind $1, and of queue $2 unless that is '', that is due first. It reads all pending jobs.
SELECT j.id FROM errand.jobs j
WHERE j.status = 'pending' AND j.kind = $1::text AND $2::text IN ('', j.queue)
ORDER BY j.scheduled_at, j.id
LIMIT 1
