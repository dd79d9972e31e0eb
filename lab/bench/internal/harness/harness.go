package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
	"github.com/errandhq/errand/lab/bench/internal/server"
)

// Harness starts the processes of a measurement, loads their tables, and counts what they used.
type Harness struct {
	*server.Servers
	Scale float64
	Soak  time.Duration

	PendingIndexKB float64 // size of the pending index of the table "long"
}

// Batch is how many jobs a call enqueues, where it enqueues many.
const Batch = 5000

// Jobs scales a number of jobs.
func (h *Harness) Jobs(n int) int { return max(int(float64(n)*h.Scale), 100) }

// Duration scales a duration.
func (h *Harness) Duration(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*h.Scale), 200*time.Millisecond)
}

// Fresh empties the system's server and installs the system.
func (h *Harness) Fresh(ctx context.Context, system peer.System) error {
	if err := h.Wipe(ctx, system); err != nil {
		return err
	}
	return h.With(ctx, system, func(p peer.Peer) error { return p.Install(ctx) })
}

// With opens the system for f and closes it afterwards. No connection stays open while something is
// measured.
func (h *Harness) With(ctx context.Context, system peer.System, f func(peer.Peer) error) error {
	p, err := peer.Open(ctx, h.Config(system))
	if err != nil {
		return err
	}
	return errors.Join(f(p), p.Close())
}

// Load enqueues n jobs. On Postgres it then gathers statistics, because plans depend on them.
func (h *Harness) Load(ctx context.Context, system peer.System, n int) error {
	err := h.Enqueue(ctx, system, n)
	if err == nil && system.Server == peer.Postgres {
		err = h.Postgres.Exec(ctx, `ANALYZE`)
	}
	return err
}

// Enqueue enqueues n jobs, numbered from 0.
func (h *Harness) Enqueue(ctx context.Context, system peer.System, n int) error {
	return h.With(ctx, system, func(p peer.Peer) error {
		for first := 0; first < n; first += Batch {
			if err := p.Enqueue(ctx, first, min(Batch, n-first)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Start starts a child that does a part of a measurement of the system.
func (h *Harness) Start(ctx context.Context, system peer.System, spec child.Spec) (*child.Process, error) {
	c := h.ChildConfig(system)
	spec.System = c.System
	spec.Redis = c.Redis
	spec.DSN = cmp.Or(spec.DSN, c.DSN)
	return child.Start(ctx, c.Program(spec.Part), spec)
}

// RunAlone runs a part that ends by itself.
func (h *Harness) RunAlone(ctx context.Context, system peer.System, spec child.Spec) (child.Result, error) {
	p, err := h.Start(ctx, system, spec)
	if err != nil {
		return child.Result{}, err
	}
	defer p.Kill()
	if err := p.Go(); err != nil {
		return child.Result{}, err
	}
	return p.Wait()
}

// RunMetered is RunAlone, and reads the server's meters before and after. They also count the
// little that the part does to prepare itself. Then it stops the others: processes that have
// helped. What they have used counts as well.
func (h *Harness) RunMetered(ctx context.Context, system peer.System, spec child.Spec, others ...*child.Process) (child.Result, Usage, error) {
	before, err := h.Read(ctx, system)
	if err != nil {
		return child.Result{}, Usage{}, err
	}
	r, err := h.RunAlone(ctx, system, spec)
	if err != nil {
		return r, Usage{}, err
	}
	after, err := h.Read(ctx, system)
	if err != nil {
		return r, Usage{}, err
	}
	helped, err := Crew(others).Stop()
	if err != nil {
		return r, Usage{}, err
	}
	u, err := h.used(ctx, system, before, after, append(helped, r)...)
	return r, u, err
}

// Usage is what a measurement has used.
type Usage struct {
	before, after server.Reading
	cpu           float64 // seconds, of the children
	peakRSS       int64   // bytes, of all the children
	written       int64   // bytes to disk, of the children; 0 if unknown, or if a server writes the jobs
}

// used adds up what children have used. They must have ended: the server counts the commits of a
// session when the session ends.
func (h *Harness) used(ctx context.Context, system peer.System, before, after server.Reading, children ...child.Result) (Usage, error) {
	late, err := h.ReadLate(ctx, system)
	after.Commits = late.Commits
	u := Usage{before: before, after: after}
	for _, r := range children {
		u.cpu += r.CPU
		u.peakRSS += r.PeakRSS
		if system.Server == peer.SQLite {
			u.written += r.Written
		}
	}
	return u, err
}

// Figures returns what each job used, as far as it is known.
func (u Usage) Figures(jobs int) []result.Figure {
	each := func(total float64) float64 { return total / float64(jobs) }
	figures := []result.Figure{
		result.NewFigure(result.PeakRSS, float64(u.peakRSS)/(1<<20)),
		result.NewFigure(result.CPU, each(u.cpu*1e6)),
	}
	if u.written > 0 {
		figures = append(figures, result.NewFigure(result.Written, each(float64(u.written))))
	}
	if u.after.Timed {
		figures = append(figures, result.NewFigure(result.ServerCPU, each(float64((u.after.CPU-u.before.CPU).Microseconds()))))
	}
	if u.after.SQL {
		figures = append(figures,
			result.NewFigure(result.WAL, each(float64(u.after.WAL-u.before.WAL))),
			result.NewFigure(result.Commits, each(float64(u.after.Commits-u.before.Commits))))
	}
	return figures
}

// Verify fails unless the system has these numbers of unsettled and completed jobs.
func Verify(ctx context.Context, p peer.Peer, system peer.System, unsettled, completed int) error {
	c, err := p.Census(ctx)
	if err != nil {
		return err
	}
	if !system.Keeps {
		completed = 0
	}
	if want := (peer.Census{Unsettled: unsettled, Completed: completed}); c != want {
		return fmt.Errorf("jobs at the end: %+v, want %+v", c, want)
	}
	return nil
}

// VerifyAll fails unless the system has this number of jobs, in whatever state.
func (h *Harness) VerifyAll(ctx context.Context, system peer.System, jobs int) error {
	return h.With(ctx, system, func(p peer.Peer) error {
		c, err := p.Census(ctx)
		if err != nil {
			return err
		}
		if got := c.Unsettled + c.Completed; got != jobs {
			return fmt.Errorf("%d jobs at the end, want %d", got, jobs)
		}
		return nil
	})
}
