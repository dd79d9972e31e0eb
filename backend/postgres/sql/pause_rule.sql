-- Pauses the queue $1, or its group $2 unless that is '', if $3, and resumes it otherwise; $4 whether to wake sleeping
-- workers. See pause_rule (migrations/0005_rules.sql).
SELECT errand.pause_rule($1::text, $2::text, $3::boolean, $4::boolean);
