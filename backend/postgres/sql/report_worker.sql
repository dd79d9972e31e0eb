-- Records what worker $1 tells about itself: $2 its queue.WorkerInfo, and how many microseconds ago it was started ($3),
-- made its last claim ($4) and was told to stop ($5), NULL for never. If $6, it removes the record instead.
-- Index: workers_pkey.
WITH stopped AS (
    DELETE FROM errand.workers WHERE worker = $1::text AND $6::boolean
)
INSERT INTO errand.workers AS w (worker, info, started_at, claimed_at, draining_at, seen_at)
SELECT
    $1::text, $2::text::jsonb,
    statement_timestamp() - $3::bigint * interval '1 microsecond',
    statement_timestamp() - $4::bigint * interval '1 microsecond',
    statement_timestamp() - $5::bigint * interval '1 microsecond',
    statement_timestamp()
WHERE NOT $6::boolean
ON CONFLICT (worker) DO UPDATE SET
    info = excluded.info, started_at = excluded.started_at, claimed_at = excluded.claimed_at,
    draining_at = excluded.draining_at, seen_at = excluded.seen_at;
