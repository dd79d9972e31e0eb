-- Returns in how many microseconds the next tick of a schedule comes, NULL if there is none. It leaves out the
-- schedules $1, which could not be fired, and with $2 those whose tick has come.
-- Index: schedules_next_idx.
SELECT (
    SELECT (extract(epoch FROM s.next_at - clock_timestamp()) * 1000000)::bigint
    FROM errand.schedules s
    WHERE s.next_at IS NOT NULL AND s.name <> ALL ($1::text::text[])
        AND (NOT $2::boolean OR s.next_at > statement_timestamp())
    ORDER BY s.next_at
    LIMIT 1);
