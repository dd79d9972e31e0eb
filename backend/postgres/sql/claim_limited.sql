-- Claims due jobs of the limited queue $1, and keeps its rules: $2 kinds or NULL for all, $3 limit, $4 lease in
-- microseconds, $5 worker, $6 the longest payload in bytes that is returned, $7 the version of the rules that the
-- caller knows, $8 the group behind which the groups' turns begin, $9 the same for ordered
-- jobs, $10 the spans to read as a JSON array, NULL for all. See claim_limited (migrations/0006_limited.sql).
-- Returns the columns of claim.sql, and one row more that is no job.
SELECT * FROM errand.claim_limited(
    $1::text, $2::text::text[], $3::integer, $4::bigint, $5::text, $6::bigint, $7::bigint, $8::text, $9::text,
    $10::text::jsonb);
