-- Claims ordered jobs of the queue $1, one of a group: $2 kinds or NULL for all, $3 limit, $4 lease in microseconds, $5
-- worker, $6 the longest payload in bytes that is returned, $7 the group behind which the groups' turns begin. See
-- claim_ordered (migrations/0015_ordered.sql).
-- Returns the columns of claim.sql, and one row more that is no job.
SELECT * FROM errand.claim_ordered($1::text, $2::text::text[], $3::integer, $4::bigint, $5::text, $6::bigint, $7::text);
