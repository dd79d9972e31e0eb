-- Remembers a key: $1 key, $2 window in microseconds. Returns a row unless it is there and its window is not over.
-- A key that another transaction is writing is waited for. Keys that are long over are removed, a few a time; not under
-- the stricter isolations, where a row that another has removed meanwhile would be an error.
-- Indexes: the primary key, and that on until.
WITH swept AS (
    DELETE FROM errand_dedup AS old
    WHERE current_setting('transaction_isolation') = 'read committed'
        AND old.ctid = ANY (ARRAY(
            SELECT o.ctid FROM errand_dedup AS o
            WHERE o.until < statement_timestamp() - interval '1 minute' AND o.key <> $1::text
            ORDER BY o.until
            LIMIT 3
            FOR UPDATE SKIP LOCKED))
)
INSERT INTO errand_dedup AS kept (key, until)
VALUES ($1::text, clock_timestamp() + $2::bigint * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE SET until = excluded.until WHERE kept.until <= clock_timestamp()
RETURNING true;
