package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// Concurrency is that of errand's worker in drains.
const Concurrency = 100

// ClockNote is the rule for all drains and all systems.
const ClockNote = "Tables and jobs are fresh, statistics gathered. The clock runs from the word to begin, to processes that are started and not yet connected, until the system's own tables have no job left that waits or runs. Each job is checked to have run once."

// Drainage describes a drain to measure.
type Drainage struct {
	System  peer.System
	Jobs    int           // at scale 1, for a system with a Share of 1
	Workers int           // processes; 0 means as many as System.Workers
	Limit   time.Duration // if not 0, the drain ends after it, finished or not
	Left    int           // how many jobs Fill makes, or lets run, that are left at the end

	Spec      child.Spec                                           // what else the workers are told
	Installed func(context.Context) error                          // if not nil, called when the tables have been made
	Before    func(context.Context) (undo func() error, err error) // if not nil, called just before the clock starts
	Fill      func(ctx context.Context, jobs int) error            // if not nil, enqueues the jobs when the workers are ready, instead of Load
	Helpers   func(ctx context.Context) (Crew, error)              // if not nil, starts other processes when the tables have been made; they count as the workers do
	Backlog   int                                                  // if not 0, jobs are enqueued while the clock runs, so that about this many wait
}

// Drained is the result of a drain.
type Drained struct {
	Handled int
	Rate    float64 // jobs a second
	Figures []result.Figure
}

// Drain enqueues jobs and measures how fast the workers run them.
func (h *Harness) Drain(ctx context.Context, d Drainage) (out Drained, err error) {
	jobs := h.Jobs(d.Jobs)
	if d.System.Share > 0 {
		jobs = max(int(float64(jobs)*d.System.Share), 100)
	}
	if err := h.Fresh(ctx, d.System); err != nil {
		return out, err
	}
	if d.Installed != nil {
		if err := d.Installed(ctx); err != nil {
			return out, err
		}
	}
	if d.Fill == nil && d.Backlog == 0 {
		if err := h.Load(ctx, d.System, jobs); err != nil {
			return out, err
		}
	}
	helpers, err := d.help(ctx)
	defer helpers.Kill()
	if err != nil {
		return out, err
	}
	workers, err := h.StartWorkers(ctx, d)
	defer workers.Kill()
	if err != nil {
		return out, err
	}
	if d.Fill != nil {
		if err := d.Fill(ctx, jobs); err != nil {
			return out, err
		}
	}
	err = h.With(ctx, d.System, func(watcher peer.Peer) error {
		if _, err := watcher.Unsettled(ctx); err != nil { // connects now, so that it answers at once later
			return err
		}
		release, err := d.hold(ctx)
		if err != nil {
			return err
		}
		out, err = h.timed(ctx, d, workers, helpers, jobs, watcher)
		return errors.Join(err, release())
	})
	return out, err
}

func (d Drainage) help(ctx context.Context) (Crew, error) {
	if d.Helpers == nil {
		return nil, nil
	}
	return d.Helpers(ctx)
}

func (d Drainage) hold(ctx context.Context) (release func() error, err error) {
	if d.Before == nil {
		return func() error { return nil }, nil
	}
	return d.Before(ctx)
}

// timed lets the workers begin, waits until all jobs are settled, and checks that they are.
func (h *Harness) timed(ctx context.Context, d Drainage, workers, helpers Crew, jobs int, watcher peer.Peer) (out Drained, err error) {
	before, err := h.Read(ctx, d.System)
	if err != nil {
		return out, err
	}
	from := time.Now()
	if err := workers.Begin(); err != nil {
		return out, err
	}
	if out.Handled, err = awaitDrain(ctx, d, workers, jobs, watcher); err != nil {
		return out, err
	}
	out.Rate = float64(out.Handled) / time.Since(from).Seconds()
	after, err := h.Read(ctx, d.System) // before the workers clean up
	if err != nil {
		return out, err
	}
	results, err := workers.Stop()
	if err != nil {
		return out, err
	}
	if out.Handled == jobs {
		if err := checkDrain(ctx, watcher, d.System, jobs, d.Left, results); err != nil {
			return out, err
		}
	}
	helped, err := helpers.Stop()
	if err != nil {
		return out, err
	}
	u, err := h.used(ctx, d.System, before, after, append(helped, results...)...)
	out.Figures = slices.Concat([]result.Figure{result.NewFigure(result.Throughput, out.Rate)}, claimFigures(results), u.Figures(out.Handled))
	return out, err
}

const (
	DrainTimeout = 10 * time.Minute
	askEvery     = 2 * time.Millisecond
)

// awaitDrain waits until handlers have run for all jobs, and then until no job waits or runs. It
// returns how many jobs were handled: fewer than jobs after d.Limit.
func awaitDrain(ctx context.Context, d Drainage, workers Crew, jobs int, watcher peer.Peer) (handled int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Limit, DrainTimeout))
	defer cancel()
	err = d.feed(ctx, watcher, workers, jobs)
	if err == nil {
		err = workers.Await(ctx, jobs)
	}
	if err != nil {
		if n := workers.Handled(); d.Limit > 0 && n > 0 && errors.Is(err, context.DeadlineExceeded) {
			return n, nil
		}
		return 0, err
	}
	for {
		unsettled, err := d.unsettled(ctx, watcher)
		if err != nil || !unsettled {
			return jobs, err
		}
		time.Sleep(askEvery)
	}
}

// unsettled reports whether more jobs wait or run than are left at the end.
func (d Drainage) unsettled(ctx context.Context, watcher peer.Peer) (bool, error) {
	if d.Left == 0 {
		return watcher.Unsettled(ctx)
	}
	c, err := watcher.Census(ctx)
	return c.Unsettled > d.Left, err
}

// feedBatch is how many jobs a call enqueues while the clock runs.
const feedBatch = 500

// feed enqueues the jobs while the workers run them, if d has a Backlog.
func (d Drainage) feed(ctx context.Context, p peer.Peer, workers Crew, jobs int) error {
	if d.Backlog == 0 {
		return nil
	}
	for sent := 0; sent < jobs; {
		if sent-workers.Handled() > d.Backlog {
			if err := workers.Await(ctx, sent-d.Backlog); err != nil {
				return err
			}
		}
		n := min(feedBatch, jobs-sent)
		if err := p.Enqueue(ctx, sent, n); err != nil {
			return err
		}
		sent += n
	}
	return nil
}

// checkDrain checks that each job ran once and has ended, but for those that are left.
func checkDrain(ctx context.Context, p peer.Peer, system peer.System, jobs, left int, results []child.Result) error {
	var handled, sum int64
	for _, r := range results {
		handled += r.Handled
		sum += r.Sum
	}
	n := int64(jobs)
	if want := n * (n - 1) / 2; handled != n || sum != want {
		return fmt.Errorf("handlers ran %d times for %d jobs, with numbers that add up to %d, want %d", handled, n, sum, want)
	}
	return Verify(ctx, p, system, left, jobs)
}

// claimFigures returns how long claims took, if there was one worker and it timed them.
func claimFigures(results []child.Result) []result.Figure {
	f := results[0].Figures
	if len(results) > 1 || f == nil {
		return nil
	}
	return []result.Figure{result.NewFigure(result.ClaimP50, f["claim_p50"]), result.NewFigure(result.ClaimP99, f["claim_p99"])}
}
