package peer

import (
	"context"
	"database/sql"
	"errors"

	"github.com/riverqueue/river/riverdriver/riversqlite"

	"github.com/errandhq/errand/lab/internal/peer"
)

// openRiverSQLite opens one connection, as River advises.
func openRiverSQLite(_ context.Context, c Config) (Peer, error) {
	db, err := peer.OpenDB("sqlite", c.DSN, 1)
	if err != nil {
		return nil, err
	}
	client, err := peer.NewRiver(riversqlite.New(db), quiet)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &riverPeer[*sql.Tx]{River: client, worker: riverBest, progress: readSQLite(c.DSN), closeDB: db.Close}, nil
}
