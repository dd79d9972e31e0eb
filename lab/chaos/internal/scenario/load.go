package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/lab"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/system"
)

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

// finish ends what a scenario without a fixed number of jobs began: nothing more is
// enqueued, what is there is worked off, the workers stop, and all is audited.
func finish(ctx context.Context, l *lab.Lab, crew *lab.Crew, enqueuer *child.Process) (f audit.Finding, book ledger.Book, err error) {
	if err := stop(enqueuer); err != nil {
		return f, book, err
	}
	if err := l.Drain(ctx); err != nil {
		return f, book, err
	}
	if err := crew.Stop(); err != nil {
		return f, book, err
	}
	return l.Audit(ctx)
}

// run is one run of a job.
type run struct{ number, attempt int }
