// Package postgres is errand's backend for PostgreSQL 13 to 19.
//
// It works through a *sql.DB that the caller opened with pgx/v5/stdlib, in any of its query modes,
// or with lib/pq, which itself supports PostgreSQL 14 and newer. It imports neither. An operation
// is normally one statement, in the sql folder, that any SQL client can run.
//
//	db, err := sql.Open("pgx", url)
//	err = postgres.Migrate(ctx, db, postgres.Options{})
//	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
//
// Without Listen everything works by polling.
//
// Prefer pgx. Some networks swallow what is sent on connections that were idle. Then a call over
// pgx ends with its context. A call over lib/pq ends when the operating system gives the connection
// up, and a worker waits for it that long.
package postgres
