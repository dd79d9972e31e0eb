-- Returns the version of the rules, and the limited queues: one row for each, or one with NULL if there is none.
SELECT v.version, l.queue FROM errand.rules_version v LEFT JOIN errand.limited_queues l ON true;
