package harness

import (
	"context"
	"database/sql"
	"errors"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/errandhq/errand/backend/postgres"
)

// Migrate makes errand's tables with these options.
func (h *Harness) Migrate(ctx context.Context, o postgres.Options) error {
	db, err := sql.Open("pgx", h.Postgres.OwnDSN)
	if err != nil {
		return err
	}
	return errors.Join(postgres.Migrate(ctx, db, o), db.Close())
}
