package scenario

import (
	"context"
	"database/sql"
	"errors"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	labpeer "github.com/errandhq/errand/lab/internal/peer"
	"github.com/errandhq/errand/queue"
)

// onBackend calls f with a backend of its own, on one connection.
func onBackend(h *harness.Harness, f func(*sql.DB, *postgres.Backend) error) (err error) {
	db, err := labpeer.OpenDB("pgx", h.Postgres.OwnDSN, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	b, err := postgres.New(db, postgres.Options{})
	if err != nil {
		return err
	}
	return f(db, b)
}

// setRule sets the rule of the default queue.
func setRule(ctx context.Context, h *harness.Harness, rule queue.Rule) error {
	return onBackend(h, func(_ *sql.DB, b *postgres.Backend) error { return b.SetRules(ctx, nil, rule) })
}
