package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// DSN returns the DSN of the system's database. The settings of the server are name, value, name,
// value. A file and a cluster have no settings.
func (h *Harness) DSN(settings ...string) string {
	switch {
	case h.Cluster != nil:
		return peer.RedisDSN(h.Cluster.Addrs) + "?" + h.Query
	case h.Server == nil:
		return h.File
	}
	return h.Server.URL(Database, settings...)
}

// Exec runs statements in the system's database, on its own connection to the server.
func (h *Harness) Exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%.60s: %w", s, err)
		}
	}
	return nil
}

// Reachable waits until the processes can reach the system's database again, through the Route if
// there is one: a pooler notices later than its clients that the server is back.
func (h *Harness) Reachable(ctx context.Context) error {
	dsn, err := h.childDSN("lab")
	if err != nil {
		return err
	}
	return h.WaitUntil(ctx, time.Minute, func() (bool, error) {
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return false, ctx.Err()
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "SELECT 1")
		return err == nil, ctx.Err()
	})
}

// Count reads one number from the system's database, on its own connection.
func (h *Harness) Count(ctx context.Context, query string, args ...any) (n int, err error) {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, query, args...).Scan(&n)
	return n, err
}

// Terminate makes the server end all connections to the system's database.
func (h *Harness) Terminate(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, h.Server.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	f := audit.Fault{What: "pg_terminate_backend", At: time.Now()}
	_, err = conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, Database)
	f.Until = time.Now()
	h.RecordFault(f)
	return err
}

// awaitQuiet waits until the server has finished the statements of a frozen process, for example a
// claim.
func (h *Harness) awaitQuiet(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return h.WaitUntil(ctx, 10*time.Second, func() (quiet bool, err error) {
		err = conn.QueryRow(ctx, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND state = 'active')`, name).Scan(&quiet)
		return quiet, err
	})
}

// InstallBusiness makes the table that jobs of the kind InTx write to.
func (h *Harness) InstallBusiness(ctx context.Context) error {
	return h.Exec(ctx, `CREATE TABLE public.business (number bigint NOT NULL, attempt integer NOT NULL, worker text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())`)
}

// Business reads that table, ordered by time.
func (h *Harness) Business(ctx context.Context) ([]ledger.Entry, error) {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, `SELECT number, attempt, worker, at, '' FROM public.business ORDER BY at`) // CollectRows returns the error, too
	return pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.Entry])
}
