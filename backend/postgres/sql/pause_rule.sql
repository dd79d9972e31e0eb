-- Pauses the queue $1, or its group $2 unless that is '', if $3, and resumes it otherwise; $4 whether to wake sleeping
-- workers. Returns whether that changes what this statement saw at its start. See pause_rule
-- (migrations/0005_rules.sql).
SELECT
    $3::boolean <> EXISTS (
        SELECT FROM errand.rules AS r WHERE r.queue = $1::text AND r.job_group = $2::text AND r.paused) AS changed,
    errand.pause_rule($1::text, $2::text, $3::boolean, $4::boolean)::text AS done;
