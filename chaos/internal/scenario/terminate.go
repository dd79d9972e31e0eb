package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/chaos/internal/audit"
	"github.com/errandhq/errand/chaos/internal/child"
	"github.com/errandhq/errand/chaos/internal/lab"
	"github.com/errandhq/errand/chaos/internal/system"
)

var terminate = Scenario{
	Number: 9,
	Name:   "terminate",
	What:   "all connections are ended with pg_terminate_backend, each second",
	Peers:  true,
	Run:    terminateConnections,
}

// load is what the server's faults meet: workers that their handlers' time keeps to
// some 320 jobs a second, and somebody who enqueues as fast as that.
func load(l *lab.Lab, lease time.Duration) (*lab.Crew, *child.Process, error) {
	crew, err := l.Crew(4, child.Work{
		Worker: system.Worker{Concurrency: 8, Lease: lease},
		Least:  50 * time.Millisecond,
		Most:   150 * time.Millisecond,
	})
	if err != nil {
		return nil, nil, err
	}
	enqueuer, err := l.Enqueuer("enqueuer", child.Enqueue{Batch: 20, Ahead: 1000})
	return crew, enqueuer, err
}

func terminateConnections(ctx context.Context, l *lab.Lab) error {
	const lease, settled, share = 3 * time.Second, 5 * time.Second, 0.8
	crew, enqueuer, err := load(l, lease)
	if err != nil {
		return err
	}
	if err := l.Sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	calm := time.Now()
	if err := l.Sleep(ctx, lab.Size(l, 20*time.Second, 3*time.Second)); err != nil {
		return err
	}
	first := time.Now()
	for range lab.Size(l, 300, 8) {
		if err := l.Terminate(ctx); err != nil {
			return err
		}
		if err := l.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	last := time.Now().Add(-time.Second)
	if err := l.Sleep(ctx, settled-time.Second); err != nil {
		return err
	}
	after := time.Now()
	if err := l.Sleep(ctx, lab.Size(l, 20*time.Second, 3*time.Second)); err != nil {
		return err
	}
	end := time.Now()
	if err := stop(enqueuer); err != nil {
		return err
	}
	if err := l.Drain(ctx); err != nil {
		return err
	}
	if err := crew.Stop(); err != nil {
		return err
	}
	f, book, err := l.Audit(ctx)
	if err != nil {
		return err
	}
	l.CheckDuplicates(f)
	before, during, then := audit.Rate(book.Effects, calm, first), audit.Rate(book.Effects, first, last), audit.Rate(book.Effects, after, end)
	l.Row.Check(then >= share*before, "≥ 80 % of the rate 5 s after", "%.0f jobs/s before, %.0f from 5 s after on", before, then)
	l.Row.Note("leases of %v; %.0f jobs/s while it lasted", lease, during)
	return nil
}
