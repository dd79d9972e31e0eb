-- Remembers the key ?1 until ?2. Returns a row unless the key is there and its window is not over at ?3.
-- Index: the primary key.
INSERT INTO errand_dedup AS kept (key, until)
VALUES (?1, ?2)
ON CONFLICT (key) DO UPDATE SET until = excluded.until WHERE kept.until <= ?3
RETURNING true;
