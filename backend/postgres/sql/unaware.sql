-- Returns the open transactions that have looked who sleeps: those that have jobs to notify of when they commit. Run
-- after a registration has been committed, it returns all that may not have seen it. A statement locks its tables
-- before its snapshot is taken, and the transaction keeps the lock until its commit can be seen. Statements that change
-- the list have stronger locks on it.
-- Index: none; the server's locks are no table.
SELECT l.virtualtransaction
FROM pg_locks l
WHERE l.locktype = 'relation' AND l.relation = 'errand.sleepers'::regclass AND l.mode = 'AccessShareLock'
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
