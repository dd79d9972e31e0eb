package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// Load starts the load that faults of the server meet: workers whose handlers' time limits them to
// some 320 jobs a second, and an enqueuer as fast as that.
func Load(h *harness.Harness, lease time.Duration) (*harness.Crew, *child.Process, error) {
	crew, err := Workers(h, lease)
	if err != nil {
		return nil, nil, err
	}
	enqueuer, err := h.Enqueuer("enqueuer", child.Enqueue{Batch: 20, Ahead: 1000})
	return crew, enqueuer, err
}

// Workers starts the workers of Load.
func Workers(h *harness.Harness, lease time.Duration) (*harness.Crew, error) {
	return h.Crew(4, LoadWork(lease))
}

// LoadWork is what each of them does.
func LoadWork(lease time.Duration) child.Work {
	return child.Work{Worker: peer.Worker{Concurrency: 8, Lease: lease}, Least: 50 * time.Millisecond, Most: 150 * time.Millisecond}
}

// Finish ends a scenario without a fixed number of jobs: it stops the enqueuer, waits until all
// jobs are done, stops the workers, and audits.
func Finish(ctx context.Context, h *harness.Harness, crew *harness.Crew, enqueuer *child.Process) (f audit.Finding, book ledger.Book, err error) {
	if err := Stop(enqueuer); err != nil {
		return f, book, err
	}
	return crew.Finish(ctx)
}

// Stop stops a process gracefully.
func Stop(p *child.Process) error {
	if err := p.Terminate(); err != nil {
		return err
	}
	return p.Wait(time.Minute)
}

// Count returns how many entries which accepts.
func Count(entries []ledger.Entry, which func(ledger.Entry) bool) (n int) {
	for _, e := range entries {
		if which(e) {
			n++
		}
	}
	return n
}

// Difference shows two texts around the place where they first differ.
func Difference(a, b string) string {
	const before, most = 20, 80
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	from := max(0, same-before)
	return fmt.Sprintf("…%.*s → …%.*s", most, a[from:], most, b[from:])
}
