-- Pauses the kind ?1.
INSERT OR IGNORE INTO errand_paused_kinds (kind) VALUES (?1);
