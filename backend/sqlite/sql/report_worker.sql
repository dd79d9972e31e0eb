-- Records what worker ?1 tells about itself: ?2 its queue.WorkerInfo, when it was started (?3), made its last claim
-- (?4) and was told to stop (?5), NULL for never; ?6 is now.
-- Index: the primary key.
INSERT INTO errand_workers (worker, info, started_at, claimed_at, draining_at, seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (worker) DO UPDATE SET
    info = excluded.info, started_at = excluded.started_at, claimed_at = excluded.claimed_at,
    draining_at = excluded.draining_at, seen_at = excluded.seen_at;
