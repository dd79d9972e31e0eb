-- Returns which transactions are open, as pg_current_snapshot shows them; this transaction's number, above which later
-- ones are; and the time of the statement, which is before both.
SELECT pg_current_snapshot()::text, pg_current_xact_id()::text::bigint, statement_timestamp();
