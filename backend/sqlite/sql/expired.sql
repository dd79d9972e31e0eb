-- Lists at most ?2 jobs whose leases have expired at ?1. ?3 is a JSON array of pairs: leases that began at the first
-- number or before end later by the second one. Those that began in the future count from ?4. See package clockwatch.
-- Index: errand_jobs_running.
SELECT id
FROM errand_jobs INDEXED BY errand_jobs_running
WHERE status = 'running'
    AND iif(locked_at > ?1 + 60000000, ?4 + (locked_until - locked_at), locked_until) < ?1 - (
        SELECT coalesce(sum(json_extract(value, '$[1]')), 0) FROM json_each(?3) WHERE locked_at <= json_extract(value, '$[0]'))
LIMIT ?2 + 0;
