// Package harness is what a scenario works with: servers, worker and enqueuer processes, the
// ledger, the audit, and the row of the report.
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/lab/chaos/internal/report"
	"github.com/errandhq/errand/lab/chaos/internal/seed"
	"github.com/errandhq/errand/lab/chaos/internal/server"
)

// Config says what a harness consists of.
type Config struct {
	Seed      uint64
	Short     bool
	System    peer.System
	Row       *report.Row
	Server    *server.Postgres  // the server of the system; nil if it is on no PostgreSQL
	File      string            // the path of the file that is its database, or ""
	Cluster   *redistest.Server // the Redis Cluster of the system, or nil
	Query     string            // of its DSN
	LedgerDSN string            // of an empty database
	// Route, if not nil, returns the DSN by which a process of that name reaches the server. dsn is
	// the server's own.
	Route func(name, dsn string) (string, error)
	// AwaitDisconnect waits until the server has finished the statements of an ended process of
	// that name. It is nil if the system is on no PostgreSQL.
	AwaitDisconnect func(ctx context.Context, name string) error
	Starter         *child.Starter
	Dir             string // a folder that is removed when the program ends
	Progress        io.Writer
}

// Harness is the harness of one scenario. Its methods must be called by one goroutine.
type Harness struct {
	Config
	Peer       peer.Peer // the system, as this process uses it
	Ledger     *ledger.Ledger
	acks       *ledger.Writer // records what this process enqueues
	children   []*child.Process
	faults     []audit.Fault
	mayLose    map[int]bool // see AllowLoss
	lossIs     string       // what AllowLoss says about mayLose
	supervised []*Crew      // see Crew.Supervise
}

// Database is the name of the system's database on its server.
const Database = "chaos"

// Open creates the system's database and the ledger.
func Open(ctx context.Context, c Config) (*Harness, error) {
	h := &Harness{Config: c}
	if err := h.open(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Harness) open(ctx context.Context) (err error) {
	if h.Server != nil {
		if err := h.Server.Create(ctx, Database); err != nil {
			return err
		}
	}
	if h.Ledger, err = ledger.Create(ctx, h.LedgerDSN); err != nil {
		return err
	}
	if h.acks, err = ledger.Open(ctx, h.LedgerDSN, "lab"); err != nil {
		return err
	}
	if h.Peer, err = h.openSystem(ctx); err != nil {
		return err
	}
	if h.Row.Server, err = h.engine(ctx); err != nil {
		return err
	}
	return h.Peer.Install(ctx)
}

// engine returns the name and version of the system's database server or library.
func (h *Harness) engine(ctx context.Context) (string, error) {
	if e, ok := h.Peer.(peer.Engine); ok {
		return e.Engine(ctx)
	}
	return "PostgreSQL " + h.Server.Version, nil
}

// openSystem opens the system for this process. Its reads are not part of the test, so it sets the
// isolation level, which a scenario may change for others.
func (h *Harness) openSystem(ctx context.Context) (peer.Peer, error) {
	return peer.Open(ctx, h.System.Name, h.DSN("default_transaction_isolation", "read committed"), 3)
}

// Close kills the remaining processes and closes the connections.
func (h *Harness) Close() error {
	for _, p := range h.children {
		p.Kill()
	}
	var errs []error
	if h.Ledger != nil {
		h.Ledger.Close()
	}
	if h.acks != nil {
		errs = append(errs, h.acks.Close())
	}
	if h.Peer != nil {
		errs = append(errs, h.Peer.Close())
	}
	return errors.Join(errs...)
}

// Size returns short in a short run, and otherwise full.
func Size[T any](h *Harness, full, short T) T {
	if h.Short {
		return short
	}
	return full
}

// Source returns the random numbers of one purpose of the scenario.
func (h *Harness) Source(purpose string) *rand.Rand {
	return seed.Source(h.Seed, h.Row.Scenario, purpose)
}

// Logf writes a line of progress.
func (h *Harness) Logf(format string, args ...any) {
	fmt.Fprintf(h.Progress, "%d %s, %s: %s\n", h.Row.Number, h.Row.Scenario, h.Row.System, fmt.Sprintf(format, args...))
}

// Sleep waits. It fails as soon as a process ends unexpectedly.
func (h *Harness) Sleep(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	return h.WaitUntil(ctx, d+time.Second, func() (bool, error) { return !time.Now().Before(until), nil })
}

// WaitUntil waits until a condition is true, for as long as patience. It fails when the condition
// fails, and as soon as a process ends unexpectedly.
func (h *Harness) WaitUntil(ctx context.Context, patience time.Duration, condition func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		for _, p := range h.children {
			if err := p.Unexpected(); err != nil {
				return err
			}
		}
		for _, c := range h.supervised {
			if err := c.replaceKilled(ctx); err != nil {
				return err
			}
		}
		ok, err := condition()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("gave up after %v", patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// RecordFault records a fault for the audit.
func (h *Harness) RecordFault(f audit.Fault) { h.faults = append(h.faults, f) }

// Faults returns the recorded faults.
func (h *Harness) Faults() []audit.Fault { return h.faults }

// Worker starts a worker process.
func (h *Harness) Worker(name string, w child.Work) (*child.Process, error) {
	return h.Start(child.Spec{Part: "work", Name: name, Work: w, Host: w.Host})
}

// Committer starts a process that enqueues, in transactions or without, with keys or without.
func (h *Harness) Committer(name string, c child.Commit) (*child.Process, error) {
	return h.Start(child.Spec{Part: "commit", Name: name, Commit: c})
}

// Enqueuer starts a process that enqueues.
func (h *Harness) Enqueuer(name string, e child.Enqueue) (*child.Process, error) {
	return h.Start(child.Spec{Part: "enqueue", Name: name, Enqueue: e, Host: e.Host})
}

// childDSN returns the DSN by which a process of that name reaches the system's database.
func (h *Harness) childDSN(name string) (string, error) {
	dsn := h.DSN("application_name", name)
	if h.Route == nil {
		return dsn, nil
	}
	return h.Route(name, dsn)
}

// Start starts a process of any part. Without a DSN it gets that of the system's database, by the
// Route.
func (h *Harness) Start(spec child.Spec) (p *child.Process, err error) {
	spec.System, spec.Ledger, spec.Seed = h.System.Name, h.LedgerDSN, h.Seed
	if spec.DSN == "" {
		if spec.DSN, err = h.childDSN(spec.Name); err != nil {
			return nil, err
		}
	}
	p, err = h.Starter.Start(spec)
	if err != nil {
		return nil, err
	}
	h.children = append(h.children, p)
	return p, nil
}

// Enqueue enqueues jobs from this process.
func (h *Harness) Enqueue(ctx context.Context, kind peer.Kind, numbers ...int) error {
	if err := h.Peer.Enqueue(ctx, kind, numbers...); err != nil {
		return err
	}
	return h.acks.Acked(numbers...)
}

// RecordAcks records jobs that were written to the table without the system.
func (h *Harness) RecordAcks(numbers ...int) error { return h.acks.Acked(numbers...) }

// RecordEffects records jobs whose work was done without the system's handlers.
func (h *Harness) RecordEffects(numbers ...int) error {
	for _, n := range numbers {
		if err := h.acks.Effect(n, 1); err != nil {
			return err
		}
	}
	return nil
}

// EnqueueLater enqueues jobs that are due later. It fails if the system has no such jobs.
func (h *Harness) EnqueueLater(ctx context.Context, kind peer.Kind, due func(number int) peer.Due, numbers ...int) error {
	later, ok := h.Peer.(peer.Later)
	if !ok {
		return fmt.Errorf("%s: has no jobs that are due later", h.System.Name)
	}
	if err := later.EnqueueLater(ctx, kind, due, numbers...); err != nil {
		return err
	}
	return h.acks.Acked(numbers...)
}
