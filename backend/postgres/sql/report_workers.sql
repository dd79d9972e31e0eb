-- Records what workers tell about themselves. $1 is a JSON array with an object for each worker: its queue.WorkerInfo
-- as info, and how many microseconds ago it was started (age), made its last claim (claim_age) and was told to stop
-- (drain_age), null for never. If $2, the workers have stopped, and it removes their records instead. It adds the
-- statistics $3 to those of their minutes: a JSON array, of which age is how many microseconds ago a minute began by
-- the worker's clock. Workers are locked before statistics, and each in the order of their keys, because two statements
-- could deadlock otherwise. So one statement does not both write and remove records. Postgres runs the last INSERT
-- first, and then what WITH names, from the last to the first.
-- Index: workers_pkey, stats_pkey.
WITH reports AS MATERIALIZED (
    SELECT r.worker, r.info, r.age, r.claim_age, r.drain_age
    FROM jsonb_to_recordset($1::text::jsonb) AS r (worker text, info jsonb, age bigint, claim_age bigint, drain_age bigint)
), added AS (
    INSERT INTO errand.stats AS s (
        minute, queue, kind, done, failed, dead, lost, ran, waited, run_times, wait_times)
    SELECT
        date_trunc('minute', statement_timestamp() + interval '30 seconds' - t.age * interval '1 microsecond') AS minute,
        t.queue, t.kind, t.done, t.failed, t.dead, t.lost, t.ran, t.waited, coalesce(t.run_times, '{}'),
        coalesce(t.wait_times, '{}')
    FROM jsonb_to_recordset($3::text::jsonb) AS t (
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
), stopped AS (
    DELETE FROM errand.workers
    WHERE $2::boolean AND worker = ANY (ARRAY(
        SELECT w.worker FROM errand.workers w
        WHERE w.worker = ANY (ARRAY(SELECT r.worker FROM reports r))
        ORDER BY w.worker FOR UPDATE))
)
INSERT INTO errand.workers AS w (worker, info, started_at, claimed_at, draining_at, seen_at)
SELECT
    r.worker, r.info,
    statement_timestamp() - r.age * interval '1 microsecond',
    statement_timestamp() - r.claim_age * interval '1 microsecond',
    statement_timestamp() - r.drain_age * interval '1 microsecond',
    statement_timestamp()
FROM reports r
WHERE NOT $2::boolean
ORDER BY r.worker COLLATE "C"
ON CONFLICT (worker) DO UPDATE SET
    info = excluded.info, started_at = excluded.started_at, claimed_at = excluded.claimed_at,
    draining_at = excluded.draining_at, seen_at = excluded.seen_at;
