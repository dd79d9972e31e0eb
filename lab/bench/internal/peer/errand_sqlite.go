package peer

import (
	"context"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/errandhq/errand/backend/sqlite"
)

// sqlitePool is how many connections errand may have to a SQLite file: as many as package dburl
// gives it.
const sqlitePool = 20

// openSQLite opens a file by the name that sqlite.DSN gives it, which says the settings, so that they are
// the same for all.
func openSQLite(dsn string, connections int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

func openErrandSQLite(_ context.Context, c Config) (Peer, error) {
	db, err := openSQLite(c.DSN, sqlitePool)
	if err != nil {
		return nil, err
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	migrate := func(ctx context.Context) error { return sqlite.Migrate(ctx, db, sqlite.Options{}) }
	return &errand{config: c, db: db, queue: q, migrate: migrate, looker: lookAtSQLite(c.DSN), questions: errandInSQLite}, nil
}
