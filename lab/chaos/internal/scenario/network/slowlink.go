package network

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
	"github.com/errandhq/errand/lab/chaos/internal/wire"
)

var slowLink = scenario.Scenario{
	Number: 24,
	Name:   "slowlink",
	What:   "jobs of 1 MB in their last attempt over a link so slow that one claim of them all cannot be answered in time",
	Alone:  true,
	Run:    workOverSlowLink,
}

// link is the load of a run: this many jobs of a megabyte, over a link of rate bytes a second. All
// jobs together take longer than a claim may.
type link struct{ jobs, rate int }

func workOverSlowLink(ctx context.Context, h *harness.Harness) error {
	size := harness.Size(h, link{500, 30_000_000}, link{60, 5_000_000})
	proxy, err := wire.Listen(h.Server.Address())
	if err != nil {
		return err
	}
	defer func() { _ = proxy.Close() }()
	proxy.Limit(size.rate)
	h.Route = func(_, dsn string) (string, error) { return proxy.DSN(dsn) }
	if err := enqueueLong(ctx, h, size.jobs); err != nil {
		return err
	}
	begun := time.Now()
	crew, err := h.Crew(1, child.Work{Worker: peer.Worker{Concurrency: size.jobs, Lease: 30 * time.Second}})
	if err != nil {
		return err
	}
	if err := h.Drain(ctx); err != nil {
		return err
	}
	took := time.Since(begun)
	if err := crew.Stop(); err != nil {
		return err
	}
	f, _, err := h.Audit(ctx)
	if err != nil {
		return err
	}
	h.CheckDuplicates(f)
	h.Row.RecoveryMS = -1
	h.Row.Check(f.Dead == 0, "jobs that are dead: 0", "%d of %d", f.Dead, size.jobs)
	h.Row.Note("%d jobs of 1 MB with MaxAttempts 1, %d MB/s, a worker of %d slots, leases of 30s; all took %.0f s", size.jobs, size.rate/1_000_000, size.jobs, took.Seconds())
	return nil
}

// enqueueLong writes jobs of a megabyte that no database can compress. Each may be started once.
func enqueueLong(ctx context.Context, h *harness.Harness, n int) error {
	conn, err := pgx.Connect(ctx, h.DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	noise := make([]byte, 750_000)
	_, _ = rand.Read(noise) // never fails
	text := base64.StdEncoding.EncodeToString(noise)
	for number := 1; number <= n; number++ {
		_, err := conn.Exec(ctx, `INSERT INTO errand.jobs (kind, payload, max_attempts) VALUES ($1, jsonb_build_object('number', $2::integer, 'pad', $3::text), 1)`,
			peer.Plain, number, text)
		if err != nil {
			return err
		}
		if err := h.RecordAcks(number); err != nil {
			return err
		}
	}
	return nil
}
