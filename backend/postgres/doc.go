// Package postgres is errand's backend for PostgreSQL 13 to 18.
//
// It works through a *sql.DB that the caller opened with pgx/v5/stdlib, in any
// of its query modes, or with lib/pq; it imports neither. Each operation is one
// statement, kept in the sql folder, that any SQL client can run.
//
//	db, err := sql.Open("pgx", url)
//	err = postgres.Migrate(ctx, db, postgres.Options{})
//	q, err := postgres.New(db, postgres.Options{Listen: pgxlisten.Listen})
//
// Without Listen everything works by polling.
//
// Prefer pgx: where a network swallows what is sent, as some do with connections
// that were idle, a call over lib/pq does not end with its context, but when the
// operating system gives the connection up, and a worker waits for it that long.
package postgres
