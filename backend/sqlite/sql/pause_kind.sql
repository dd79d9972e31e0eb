-- Pauses the kinds in the JSON array ?1.
INSERT OR IGNORE INTO errand_paused_kinds (kind) SELECT value FROM json_each(?1);
