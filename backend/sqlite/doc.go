// Package sqlite is errand's backend for SQLite 3.38 and later: one file on a local disk, and any
// number of processes of one host on it.
//
// It works through a *sql.DB that the caller has opened, and imports no driver. Two drivers pass
// the same tests: modernc.org/sqlite (pure Go, driver name "sqlite") and
// github.com/mattn/go-sqlite3 (cgo, "sqlite3"). [Open] sets what both drivers need, and [DSN]
// returns it for sql.Open:
//
//	db, err := sqlite.Open("sqlite", "app.db")
//	err = sqlite.Migrate(ctx, db, sqlite.Options{})
//	q, err := sqlite.New(db, sqlite.Options{})
//
// # Durability
//
// New and Migrate put the file in WAL mode. synchronous is FULL: what has been committed survives a
// power cut. The price is one fsync a transaction, which a batch of jobs shares. New refuses
// connections with less unless [Options].Relaxed is set. A process that is killed loses nothing in
// either mode.
//
// # One writer
//
// SQLite has one write lock for the whole file. Each call that writes takes it once, before it
// reads, and holds it for one short transaction. So no call of this package fails because another
// connection has the lock.
//
// Writers of one process take turns, Extend first, and then take a connection of the pool.
// Processes take turns by a lock of the operating system on an empty file beside the database,
// app.db-turn, with the mode of the database. Where there is no flock, as on Windows, they try
// again every few milliseconds. A process also does so after it has waited for its turn for a tenth
// of [Options].LockTimeout: SQLite's own lock protects the data, and the file only orders the
// writers. A call that has no lock after LockTimeout returns an error.
//
// SQLite's own busy handler sleeps for longer and longer: of eight busy processes some would wait
// for many seconds. The application's own transactions wait with that handler. So if one of them
// may want the lock, a process that has just had the lock leaves it alone for half that time.
//
// While a transaction of the application has written and not ended, everything else waits:
// enqueueing, claims, settling, and the extension of leases. Keep such a transaction far shorter
// than a lease. Calls on the backend's own handle (with nil instead of the transaction) wait for
// it, too: within such a transaction they deadlock, until LockTimeout ends the call.
//
// Transactions that last as long as a handler take turns like the calls, by [Backend.BeginTx];
// middleware.Tx uses it. One of them runs at a time, however high the worker's Concurrency. After
// each of them Extend goes first, and then the calls that wait. Keep such a handler's time, times
// the number of processes, under a third of the lease.
//
// With the parameters of DSN a *sql.Tx has the write lock from its beginning. Without
// _txlock=immediate it takes the lock with its first write. If it has read before, and another
// transaction has written since, SQLite refuses that write for good. Enqueue and Settle then return
// an error that says so: roll back and begin a new transaction. A transaction that writes first
// does not meet this error.
//
// # Transactions that SQLite ends
//
// SQLite rolls back a whole transaction by itself when a statement of it that writes is
// interrupted, for example because its context ends, or when the disk is full. database/sql does
// not notice. Each later statement through the same *sql.Tx then takes effect at once, by itself.
//
// Enqueue, Settle and ClaimTx check for that before they write. In such a transaction they write
// nothing and return an error that wraps [sql.ErrTxDone]. The check is the statement BEGIN, which
// fails within a transaction. It takes 1 to 2 µs, and is made for each handle that has Commit and
// Rollback.
//
// errand does not check the application's own statements. When one of them has failed, roll back
// and write nothing more; Commit fails then, too. Do not give a statement a shorter context than
// its transaction has. Nor does errand check a transaction that was begun by hand on a *sql.Conn.
//
// # The write-ahead log
//
// SQLite begins its log, app.db-wal, anew only in a moment in which no connection reads from it.
// The workers' upkeep empties a log of more than 8 MB, and waits up to 0.2 s for readers. A read
// transaction that stays open for longer lets the log grow.
//
// # Several processes
//
// Any number of processes of one host may use a file. Network file systems do not work: WAL needs
// shared memory. Within one process, use one driver for a file: the locks of two SQLite libraries
// in one process undo each other. New refuses databases in memory, because each connection would
// have its own; package queuetest has a queue for tests.
//
// # Clock
//
// The host's clock decides which jobs are due and which leases have expired. Times are stored in
// whole microseconds.
package sqlite
