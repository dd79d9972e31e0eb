// Package lab is what a scenario has at hand: servers, worker and enqueuer processes,
// the ledger, the auditor, and the row that it fills.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/lab/chaos/internal/child"
	"github.com/errandhq/errand/lab/chaos/internal/ledger"
	"github.com/errandhq/errand/lab/chaos/internal/plan"
	"github.com/errandhq/errand/lab/chaos/internal/report"
	"github.com/errandhq/errand/lab/chaos/internal/server"
	"github.com/errandhq/errand/lab/chaos/internal/system"
)

// Config is what a lab is made of.
type Config struct {
	Seed      uint64
	Short     bool
	About     system.About
	Row       *report.Row
	Server    *server.Postgres // the system's; nil if its database is a file
	File      string           // that file's path, or ""
	LedgerDSN string           // an empty database
	// Route, if not nil, says where a process of that name finds the server, whose own place is
	// dsn.
	Route func(name, dsn string) (string, error)
	// Left waits until nothing is under way any more of a process of that name, which has ended;
	// nil if the database is a file.
	Left     func(ctx context.Context, name string) error
	Nursery  *child.Nursery
	Dir      string // a folder that is gone when the program has ended
	Progress io.Writer
}

// Lab is one scenario's. Its methods are for one goroutine.
type Lab struct {
	Config
	System   system.System // as this process uses it
	Ledger   *ledger.Ledger
	acks     *ledger.Writer // of what this process enqueues
	children []*child.Process
	faults   []audit.Fault
	gone     map[int]bool // see Gone
	watched  []*Crew      // those that are supervised
}

// Database is the name of the system's database on its server.
const Database = "chaos"

// Open makes the system's database and the ledger.
func Open(ctx context.Context, c Config) (*Lab, error) {
	l := &Lab{Config: c}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) open(ctx context.Context) (err error) {
	if l.Server != nil {
		if err := l.Server.Create(ctx, Database); err != nil {
			return err
		}
	}
	if l.Ledger, err = ledger.Create(ctx, l.LedgerDSN); err != nil {
		return err
	}
	if l.acks, err = ledger.Open(ctx, l.LedgerDSN, "lab"); err != nil {
		return err
	}
	if l.System, err = l.openSystem(ctx); err != nil {
		return err
	}
	if l.Row.Server, err = l.engine(ctx); err != nil {
		return err
	}
	return l.System.Install(ctx)
}

// engine is what runs the system's database.
func (l *Lab) engine(ctx context.Context) (string, error) {
	if f, ok := l.System.(system.File); ok {
		return f.Engine(ctx)
	}
	return "PostgreSQL " + l.Server.Version, nil
}

// openSystem opens the system for this process. What it reads is no part of what is tested,
// whatever the database's default is made.
func (l *Lab) openSystem(ctx context.Context) (system.System, error) {
	return system.Open(ctx, l.About.Name, l.DSN("default_transaction_isolation", "read committed"), 3)
}

// Close ends what is left of the processes.
func (l *Lab) Close() error {
	for _, p := range l.children {
		p.Kill()
	}
	var errs []error
	if l.Ledger != nil {
		l.Ledger.Close()
	}
	if l.acks != nil {
		errs = append(errs, l.acks.Close())
	}
	if l.System != nil {
		errs = append(errs, l.System.Close())
	}
	return errors.Join(errs...)
}

// Size is full, or, in a short run, short.
func Size[T any](l *Lab, full, short T) T {
	if l.Short {
		return short
	}
	return full
}

// Source is the randomness of one of the scenario's purposes.
func (l *Lab) Source(purpose string) *rand.Rand {
	return plan.Source(l.Seed, l.Row.Scenario, purpose)
}

// Say tells whoever waits how far it is.
func (l *Lab) Say(format string, args ...any) {
	fmt.Fprintf(l.Progress, "%d %s, %s: %s\n", l.Row.Number, l.Row.Scenario, l.Row.System, fmt.Sprintf(format, args...))
}

// Sleep lets time pass. It fails as soon as a process has ended that should not have.
func (l *Lab) Sleep(ctx context.Context, d time.Duration) error {
	until := time.Now().Add(d)
	return l.Until(ctx, d+time.Second, func() (bool, error) { return !time.Now().Before(until), nil })
}

// Until waits for a condition, for as long as the patience lasts. It fails, too, when
// the condition does, and as soon as a process has ended that should not have.
func (l *Lab) Until(ctx context.Context, patience time.Duration, condition func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		for _, p := range l.children {
			if err := p.Unexpected(); err != nil {
				return err
			}
		}
		for _, c := range l.watched {
			if err := c.replaceKilled(ctx); err != nil {
				return err
			}
		}
		ok, err := condition()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited for %v in vain", patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Struck takes note of a fault.
func (l *Lab) Struck(f audit.Fault) { l.faults = append(l.faults, f) }

// Faults are those that the lab was told of.
func (l *Lab) Faults() []audit.Fault { return l.faults }

// Worker starts a worker process.
func (l *Lab) Worker(name string, w child.Work) (*child.Process, error) {
	return l.Start(child.Spec{Part: "work", Name: name, Work: w, Host: w.Host})
}

// Committer starts a process that enqueues in transactions or without, with keys or
// without.
func (l *Lab) Committer(name string, c child.Commit) (*child.Process, error) {
	return l.Start(child.Spec{Part: "commit", Name: name, Commit: c})
}

// Enqueuer starts a process that enqueues.
func (l *Lab) Enqueuer(name string, e child.Enqueue) (*child.Process, error) {
	return l.Start(child.Spec{Part: "enqueue", Name: name, Enqueue: e, Host: e.Host})
}

// childDSN is where a process of that name finds the system's database.
func (l *Lab) childDSN(name string) (string, error) {
	dsn := l.DSN("application_name", name)
	if l.Route == nil {
		return dsn, nil
	}
	return l.Route(name, dsn)
}

// Start starts a process of any part. Where it has no DSN, it is given that of the
// system's database, by the Route.
func (l *Lab) Start(spec child.Spec) (p *child.Process, err error) {
	spec.System, spec.Ledger, spec.Seed = l.About.Name, l.LedgerDSN, l.Seed
	if spec.DSN == "" {
		if spec.DSN, err = l.childDSN(spec.Name); err != nil {
			return nil, err
		}
	}
	p, err = l.Nursery.Start(spec)
	if err != nil {
		return nil, err
	}
	l.children = append(l.children, p)
	return p, nil
}

// Enqueue enqueues jobs from this process.
func (l *Lab) Enqueue(ctx context.Context, kind system.Kind, numbers ...int) error {
	if err := l.System.Enqueue(ctx, kind, numbers...); err != nil {
		return err
	}
	return l.acks.Acked(numbers...)
}

// Acked takes note of jobs that came into the table without the system.
func (l *Lab) Acked(numbers ...int) error { return l.acks.Acked(numbers...) }

// Acted takes note of jobs whose work was done without the system's own handlers.
func (l *Lab) Acted(numbers ...int) error {
	for _, n := range numbers {
		if err := l.acks.Effect(n, 1); err != nil {
			return err
		}
	}
	return nil
}

// EnqueueLater enqueues jobs that are due later from this process, where the system can do that.
func (l *Lab) EnqueueLater(ctx context.Context, kind system.Kind, due func(number int) system.Due, numbers ...int) error {
	later, ok := l.System.(system.Later)
	if !ok {
		return fmt.Errorf("%s: has no jobs that are due later", l.About.Name)
	}
	if err := later.EnqueueLater(ctx, kind, due, numbers...); err != nil {
		return err
	}
	return l.acks.Acked(numbers...)
}
