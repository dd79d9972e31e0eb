-- Removes the rule of queue ?1 and group ?2.
DELETE FROM errand_rules WHERE queue = ?1 AND job_group = ?2;
