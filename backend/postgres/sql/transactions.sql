-- Tells which transactions are open, as pg_current_snapshot has it; the number of this one, since those with a higher one are begun
-- later; and the time of the statement, which is before both.
SELECT pg_current_snapshot()::text, pg_current_xact_id()::text::bigint, statement_timestamp();
