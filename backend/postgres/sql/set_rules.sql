-- Sets rules, one for each element of the arrays as text: $1 queues, $2 groups, $3 paused, $4 running, $5 per_group, $6
-- share, $7 hold_dead; $8 to $10 jobs, per in nanoseconds and burst of the queue's rate, $11 to $13 the same of the
-- groups'; $14 whether to wake sleeping workers. See set_rules (migrations/0005_rules.sql).
SELECT errand.set_rules(
    $1::text::text[], $2::text::text[], $3::text::boolean[], $4::text::integer[], $5::text::integer[],
    $6::text::integer[], $7::text::boolean[], $8::text::integer[], $9::text::bigint[], $10::text::integer[],
    $11::text::integer[], $12::text::bigint[], $13::text::integer[], $14::boolean);
