-- Remembers the sources $1 for $2 microseconds. Returns those that are not remembered. If another transaction is
-- writing one of them, it waits. It writes them in order, so that two calls cannot wait for each other. It also forgets
-- a few whose window has long been over. It runs in a READ COMMITTED transaction of its own.
-- Indexes: the primary key, and the one on until.
WITH swept AS (
    DELETE FROM errand.dedup AS old
    WHERE old.ctid = ANY (ARRAY(
        SELECT o.ctid FROM errand.dedup AS o
        WHERE o.until < statement_timestamp() - interval '1 minute' AND o.key <> ALL (($1::text)::text[])
        ORDER BY o.until
        LIMIT 2 * cardinality(($1::text)::text[])
        FOR UPDATE SKIP LOCKED))
)
INSERT INTO errand.dedup AS kept (key, until)
SELECT source, clock_timestamp() + $2::bigint * interval '1 microsecond'
FROM unnest(($1::text)::text[]) AS source
ORDER BY source
ON CONFLICT (key) DO UPDATE SET until = excluded.until WHERE kept.until <= clock_timestamp()
RETURNING key;
