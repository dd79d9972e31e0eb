package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

// FewConnections are the settings of a server that a scenario takes all connections of.
var FewConnections = map[string]string{"max_connections": "60"}

var limits = scenario.Scenario{
	Number: 20,
	Name:   "limits",
	What:   "a statement_timeout of 50 ms, and then all of max_connections taken by others",
	Run:    reachLimits,
	// Little more than the workers' pools may open.
	Settings: FewConnections,
}

func reachLimits(ctx context.Context, h *harness.Harness) error {
	const lease, within = 3 * time.Second, 30 * time.Second
	crew, enqueuer, err := scenario.Load(h, lease)
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, 10*time.Second, 3*time.Second)); err != nil {
		return err
	}
	hasty, err := LimitStatements(ctx, h, harness.Size(h, 2*time.Minute, 10*time.Second))
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, within, 10*time.Second)); err != nil {
		return err
	}
	full, err := TakeConnections(ctx, h, harness.Size(h, time.Minute, 8*time.Second))
	if err != nil {
		return err
	}
	if err := h.Sleep(ctx, harness.Size(h, within, 15*time.Second)); err != nil {
		return err
	}
	f, book, err := scenario.Finish(ctx, h, crew, enqueuer)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	checkResumed(h, book.Starts, crew.Names(), []audit.Fault{hasty, full}, within)
	recovery := time.Duration(h.Row.RecoveryMS) * time.Millisecond
	h.Row.CheckTime(recovery <= within, "recovery ≤ 30 s", "%.1f s", recovery.Seconds())
	h.Row.Note("leases of %v; %.0f jobs/s with the timeout, %.0f without connections", lease,
		audit.Rate(book.Effects, hasty.At, hasty.Until), audit.Rate(book.Effects, full.At, full.Until))
	return nil
}

// LimitStatements makes all sessions start again with a statement timeout, and later without.
func LimitStatements(ctx context.Context, h *harness.Harness, lasting time.Duration) (f audit.Fault, err error) {
	f = audit.Fault{What: "statement_timeout", At: time.Now()}
	set := "ALTER DATABASE " + harness.Database + " SET statement_timeout = "
	if err := errors.Join(h.Exec(ctx, set+"50"), h.Terminate(ctx), h.Sleep(ctx, lasting)); err != nil {
		return f, err
	}
	err = errors.Join(h.Exec(ctx, set+"0"), h.Terminate(ctx))
	f.Until = time.Now()
	h.RecordFault(f)
	return f, err
}

// TakeConnections opens every connection that the server allows, again and again, and later closes
// them.
func TakeConnections(ctx context.Context, h *harness.Harness, lasting time.Duration) (f audit.Fault, err error) {
	f = audit.Fault{What: "max_connections", At: time.Now()}
	control, err := pgx.Connect(ctx, h.Server.URL("postgres"))
	if err != nil {
		return f, err
	}
	defer control.Close(context.WithoutCancel(ctx))
	var taken []*pgx.Conn
	defer func() {
		for _, c := range taken {
			_ = c.Close(context.WithoutCancel(ctx))
		}
		f.Until = time.Now()
		h.RecordFault(f)
		h.Logf("%d connections given back", len(taken))
	}()
	for tick := time.NewTicker(20 * time.Millisecond); time.Since(f.At) < lasting; <-tick.C {
		for {
			c, err := pgx.Connect(ctx, h.Server.URL("postgres"))
			if full := (*pgconn.PgError)(nil); errors.As(err, &full) && full.Code == "53300" { // too_many_connections
				break
			}
			if err != nil {
				return f, fmt.Errorf("take connections: %w", err)
			}
			taken = append(taken, c)
		}
		if _, err := control.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, harness.Database); err != nil {
			return f, err
		}
	}
	return f, nil
}
