-- Claims ordered jobs of the queue $1, one of a group: $2 kinds or NULL for all, $3 limit, $4 lease in microseconds, $5
-- worker, $6 the longest payload in bytes that is returned, $7 the group behind which the groups' turns begin, $8
-- the version of the rules that the caller knows: if there is a later one, it fails; $9 for how many microseconds to
-- wait for other claims of ordered jobs. See claim_ordered (migrations/0004_ordered.sql).
-- Returns the columns of claim.sql, and one row more that is no job; no row if other claims hold the lock.
SELECT c.*
FROM (SELECT $1::text AS queue WHERE errand.lock_claims($1::text, false, $9::bigint) OFFSET 0) AS locked
CROSS JOIN LATERAL errand.claim_ordered(
    locked.queue, $2::text::text[],
    CASE WHEN (SELECT v.version FROM errand.rules_version v) = $8::bigint THEN $3::integer
        ELSE cardinality(errand.rules_changed()) END,
    $4::bigint, $5::text, $6::bigint, $7::text) AS c;
