-- Returns what runs came to: of queue $1 and kind $2, NULL for any, in minutes from $3 and before $4, NULL for no
-- bound. $5 is how many seconds each row is about, NULL for all in one; $6 and $7 tell queues and kinds apart; $8 adds
-- the histograms. Without them nothing reads the arrays: so picked must not be materialized.
-- Index: stats_pkey.
WITH picked AS NOT MATERIALIZED (
    SELECT
        minute, to_timestamp(floor(date_part('epoch', minute) / $5::bigint) * $5::bigint) AS step,
        CASE WHEN $6::boolean THEN queue ELSE '' END AS queue, CASE WHEN $7::boolean THEN kind ELSE '' END AS kind,
        done, failed, dead, lost, ran, waited, run_times, wait_times
    FROM errand.stats
    WHERE ($1::text IS NULL OR queue = $1::text)
        AND ($2::text IS NULL OR kind = $2::text)
        AND ($3::timestamptz IS NULL OR minute >= $3::timestamptz)
        AND ($4::timestamptz IS NULL OR minute < $4::timestamptz)
), sums AS MATERIALIZED (
    SELECT
        coalesce(step, min(minute)) AS at, step, queue, kind, sum(done) AS done, sum(failed) AS failed, sum(dead) AS dead,
        sum(lost) AS lost, sum(ran) AS ran, sum(waited) AS waited
    FROM picked
    GROUP BY step, queue, kind
), times AS MATERIALIZED (
    SELECT step, queue, kind, json_agg(runs ORDER BY n) AS run_times, json_agg(waits ORDER BY n) AS wait_times
    FROM (
        SELECT p.step, p.queue, p.kind, h.n, sum(coalesce(h.run, 0)) AS runs, sum(coalesce(h.wait, 0)) AS waits
        FROM picked p
        CROSS JOIN unnest(p.run_times, p.wait_times) WITH ORDINALITY AS h (run, wait, n)
        WHERE $8::boolean
        GROUP BY p.step, p.queue, p.kind, h.n
    ) AS b
    GROUP BY step, queue, kind
)
SELECT
    s.at, s.queue, s.kind, s.done::bigint, s.failed::bigint, s.dead::bigint, s.lost::bigint, s.ran::bigint, s.waited::bigint,
    t.run_times::text, t.wait_times::text
FROM sums s
LEFT JOIN times t ON t.step IS NOT DISTINCT FROM s.step AND t.queue = s.queue AND t.kind = s.kind
ORDER BY s.at, s.queue, s.kind;
