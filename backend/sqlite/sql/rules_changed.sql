-- Counts up the version of the rules and of the paused kinds. Claims that know an older one read the rules again, and
-- workers the paused kinds.
UPDATE errand_fences SET rules = rules + 1;
