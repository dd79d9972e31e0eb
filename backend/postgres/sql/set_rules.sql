-- Sets rules, one for each element of the arrays as text: $1 queues, $2 groups, $3 whether the rule is removed, $4
-- paused, $5 running, $6 per_group, $7 share, $8 hold_dead; $9 whether to wake sleeping workers. See set_rules
-- (migrations/0005_rules.sql). Then it sets their rates: $10 to $12 jobs, per in nanoseconds and burst of the queue's
-- rate, $13 to $15 the same of the groups'. See set_rates (migrations/0005_rules.sql).
SELECT errand.set_rules(
        $1::text::text[], $2::text::text[], $3::text::boolean[], $4::text::boolean[], $5::text::integer[],
        $6::text::integer[], $7::text::integer[], $8::text::boolean[], $9::boolean),
    errand.set_rates(
        $1::text::text[], $2::text::text[], $10::text::integer[], $11::text::bigint[], $12::text::integer[],
        $13::text::integer[], $14::text::bigint[], $15::text::integer[]);
