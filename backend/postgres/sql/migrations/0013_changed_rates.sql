-- bucket_full as in 0006_limited.sql, but for a rate that has changed since the bucket was last spent from: tokens have
-- come at the faster of the two rates, and the others come at the new one. So a bucket that was full stays full, and
-- need not be stored.
-- Index: tokens_pkey.
CREATE OR REPLACE FUNCTION errand.bucket_full(queue_name text, bucket text, each bigint, most bigint, now_ns bigint)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(now_ns, (
        SELECT greatest(
            CASE WHEN t.each IN (0, bucket_full.each) THEN t.full_at
                ELSE now_ns + least(bucket_full.each * greatest(0,
                        (t.full_at - t.at)::double precision / t.each
                        - greatest(now_ns - t.at, 0)::double precision / least(t.each, bucket_full.each)),
                    3153600000000000000)::bigint
            END,
            CASE WHEN t.until > 0 THEN t.until + (bucket_full.most - 1) * bucket_full.each END)
        FROM errand.tokens t
        WHERE t.queue = queue_name AND t.job_group = bucket))
$$;
