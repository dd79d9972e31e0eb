package peer

import (
	"context"
	"errors"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/lab/internal/peer"
)

// sqlitePool is how many connections errand may open to a SQLite file. Package dburl gives it as
// many.
const sqlitePool = 20

func openErrandSQLite(_ context.Context, c Config) (Peer, error) {
	db, err := peer.OpenDB("sqlite", c.DSN, sqlitePool)
	if err != nil {
		return nil, err
	}
	q, err := sqlite.New(db, sqlite.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	migrate := func(ctx context.Context) error { return sqlite.Migrate(ctx, db, sqlite.Options{}) }
	return &errand{config: c, db: db, queue: q, migrate: migrate, progress: readSQLite(c.DSN), questions: errandInSQLite}, nil
}
