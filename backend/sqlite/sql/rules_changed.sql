-- Counts up the version of the rules. Claims that know an older one read the rules again.
UPDATE errand_fences SET rules = rules + 1;
