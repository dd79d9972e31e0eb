-- Claims due jobs of the limited queue $1, and keeps its rules: $2 kinds or NULL for all, $3 limit, $4 lease in
-- microseconds, $5 worker, $6 the longest payload in bytes that is returned, $7 the version of the rules that the
-- caller knows, $8 the group behind which the groups' turns begin, $9 the same for ordered
-- jobs, $10 the spans to read as a JSON array, NULL for all, $11 for how many microseconds to wait for other claims of
-- the queue. See claim_limited (migrations/0014_one_version.sql).
-- Returns the columns of claim.sql, and one row more that is no job; no row if other claims hold the lock.
SELECT c.*
FROM (SELECT $1::text AS queue WHERE errand.lock_claims($1::text, true, $11::bigint) OFFSET 0) AS locked
CROSS JOIN LATERAL errand.claim_limited(
    locked.queue, $2::text::text[], $3::integer, $4::bigint, $5::text, $6::bigint, $7::bigint, $8::text, $9::text,
    $10::text::jsonb) AS c;
