-- Records what worker $1 tells about itself: $2 its queue.WorkerInfo, and how many microseconds ago it was started ($3),
-- made its last claim ($4) and was told to stop ($5), NULL for never. If $6, it removes the record instead. It adds the
-- statistics $7 to those of their minutes: a JSON array, of which age is how many microseconds ago a minute began by the
-- worker's clock. They are written in the order of their keys, because two reports could deadlock otherwise.
-- Index: workers_pkey, stats_pkey.
WITH stopped AS (
    DELETE FROM errand.workers WHERE worker = $1::text AND $6::boolean
), added AS (
    INSERT INTO errand.stats AS s (
        minute, queue, kind, done, failed, dead, lost, ran, waited, run_times, wait_times)
    SELECT
        date_trunc('minute', statement_timestamp() + interval '30 seconds' - t.age * interval '1 microsecond') AS minute,
        t.queue, t.kind, t.done, t.failed, t.dead, t.lost, t.ran, t.waited, coalesce(t.run_times, '{}'),
        coalesce(t.wait_times, '{}')
    FROM jsonb_to_recordset($7::text::jsonb) AS t (
        age bigint, queue text, kind text, done bigint, failed bigint, dead bigint, lost bigint, ran bigint, waited bigint,
        run_times integer[], wait_times integer[])
    ORDER BY minute, t.queue COLLATE "C", t.kind COLLATE "C"
    ON CONFLICT (minute, queue, kind) DO UPDATE SET
        done = s.done + excluded.done, failed = s.failed + excluded.failed, dead = s.dead + excluded.dead,
        lost = s.lost + excluded.lost, ran = s.ran + excluded.ran, waited = s.waited + excluded.waited,
        run_times = ARRAY(
            SELECT coalesce(h.a, 0) + coalesce(h.b, 0)
            FROM unnest(s.run_times, excluded.run_times) WITH ORDINALITY AS h (a, b, n) ORDER BY h.n),
        wait_times = ARRAY(
            SELECT coalesce(h.a, 0) + coalesce(h.b, 0)
            FROM unnest(s.wait_times, excluded.wait_times) WITH ORDINALITY AS h (a, b, n) ORDER BY h.n)
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
