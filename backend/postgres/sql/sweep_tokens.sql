-- Removes the buckets that are full, a thousand at most.
-- Index: none: they are few.
DELETE FROM errand.tokens
WHERE ctid = ANY (ARRAY(
    SELECT t.ctid
    FROM errand.tokens t
    WHERE greatest(t.full_at, t.until) <= errand.nanoseconds(clock_timestamp())
    LIMIT 1000
    FOR UPDATE SKIP LOCKED));
