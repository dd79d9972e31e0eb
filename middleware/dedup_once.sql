-- Remembers a key: $1 key, $2 window in microseconds. Returns a row unless the key is there and its window is not over.
-- If another transaction is writing the key, it waits. It also removes a few keys whose window has long been over; not
-- under the stricter isolation levels, where a row that another transaction has removed would be an error.
-- Indexes: the primary key, and the one on until.
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
