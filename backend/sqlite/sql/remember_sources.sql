-- Remembers the sources of the JSON array ?1 until ?2. Returns those that are not remembered at ?3.
-- Index: the primary key.
INSERT INTO errand_received AS kept (source, until)
SELECT value, ?2 FROM json_each(?1)
WHERE true -- without a WHERE, SQLite would read ON as part of a join
ON CONFLICT (source) DO UPDATE SET until = excluded.until WHERE kept.until <= ?3
RETURNING source;
