package scenario

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

// concurrency is errand's, in drains.
const concurrency = 100

// clockNote is the rule for all drains and all systems.
const clockNote = "Tables and jobs are fresh, statistics gathered. The clock runs from the word to begin, to processes that are started and not yet connected, until the system's own tables have no job left that waits or runs. Each job is checked to have run once."

// drainage is a drain to be measured.
type drainage struct {
	system  peer.System
	jobs    int           // at scale 1, and for a system with a Share of 1
	workers int           // processes; 0 means as many as the system has
	limit   time.Duration // if not 0, how long it may take: what is left then is left

	spec      child.Spec                                           // what the workers are told besides
	installed func(context.Context) error                          // if not nil, done when the tables have been made
	before    func(context.Context) (undo func() error, err error) // if not nil, done just before the clock starts
	fill      func(ctx context.Context, jobs int) error            // if not nil, enqueues instead of load, when the workers are ready
	backlog   int                                                  // if not 0, jobs are enqueued while the clock runs, so that about so many wait
}

// drained is what came of a drain.
type drained struct {
	handled int
	rate    float64 // jobs a second
	figures []result.Figure
}

// drain enqueues jobs and measures how fast they are worked off.
func (l *Lab) drain(ctx context.Context, d drainage) (out drained, err error) {
	jobs := l.jobs(d.jobs)
	if d.system.Share > 0 {
		jobs = max(int(float64(jobs)*d.system.Share), 100)
	}
	if err := l.fresh(ctx, d.system); err != nil {
		return out, err
	}
	if d.installed != nil {
		if err := d.installed(ctx); err != nil {
			return out, err
		}
	}
	if d.fill == nil && d.backlog == 0 {
		if err := l.load(ctx, d.system, jobs); err != nil {
			return out, err
		}
	}
	workers, err := l.startWorkers(ctx, d)
	defer workers.kill()
	if err != nil {
		return out, err
	}
	if d.fill != nil {
		if err := d.fill(ctx, jobs); err != nil {
			return out, err
		}
	}
	err = l.with(ctx, d.system, func(watcher peer.Peer) error {
		if _, err := watcher.Unsettled(ctx); err != nil { // connects, so that it answers at once later
			return err
		}
		release, err := d.hold(ctx)
		if err != nil {
			return err
		}
		out, err = l.timed(ctx, d, workers, jobs, watcher)
		return errors.Join(err, release())
	})
	return out, err
}

func (d drainage) hold(ctx context.Context) (release func() error, err error) {
	if d.before == nil {
		return func() error { return nil }, nil
	}
	return d.before(ctx)
}

// timed lets the workers begin, waits until all is settled, and checks that it is.
func (l *Lab) timed(ctx context.Context, d drainage, workers crew, jobs int, watcher peer.Peer) (out drained, err error) {
	before, err := l.Read(ctx, d.system)
	if err != nil {
		return out, err
	}
	from := time.Now()
	if err := workers.begin(); err != nil {
		return out, err
	}
	if out.handled, err = awaitDrain(ctx, d, workers, jobs, watcher); err != nil {
		return out, err
	}
	out.rate = float64(out.handled) / time.Since(from).Seconds()
	after, err := l.Read(ctx, d.system) // before the workers tidy up
	if err != nil {
		return out, err
	}
	results, err := workers.stop()
	if err != nil {
		return out, err
	}
	if out.handled == jobs {
		if err := checkDrain(ctx, watcher, d.system, jobs, results); err != nil {
			return out, err
		}
	}
	u, err := l.used(ctx, d.system, before, after, results...)
	out.figures = slices.Concat([]result.Figure{is(result.Throughput, out.rate)}, claimFigures(results), u.figures(out.handled))
	return out, err
}

const (
	drainTimeout = 10 * time.Minute
	askEvery     = 2 * time.Millisecond
)

// awaitDrain waits until handlers have run for all jobs, and then until the
// system has none left that waits or runs. It returns how many jobs that are.
func awaitDrain(ctx context.Context, d drainage, workers crew, jobs int, watcher peer.Peer) (handled int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.limit, drainTimeout))
	defer cancel()
	err = d.feed(ctx, watcher, workers, jobs)
	if err == nil {
		err = workers.await(ctx, jobs)
	}
	if err != nil {
		if n := workers.handled(); d.limit > 0 && n > 0 && errors.Is(err, context.DeadlineExceeded) {
			return n, nil
		}
		return 0, err
	}
	for {
		unsettled, err := watcher.Unsettled(ctx)
		if err != nil || !unsettled {
			return jobs, err
		}
		time.Sleep(askEvery)
	}
}

// feedBatch is how many jobs are enqueued at once while the clock runs.
const feedBatch = 500

// feed enqueues the jobs while they are worked off, if that is how it is to be.
func (d drainage) feed(ctx context.Context, p peer.Peer, workers crew, jobs int) error {
	if d.backlog == 0 {
		return nil
	}
	for sent := 0; sent < jobs; {
		if sent-workers.handled() > d.backlog {
			if err := workers.await(ctx, sent-d.backlog); err != nil {
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

// checkDrain checks that each job ran once and has ended.
func checkDrain(ctx context.Context, p peer.Peer, system peer.System, jobs int, results []child.Result) error {
	var handled, sum int64
	for _, r := range results {
		handled += r.Handled
		sum += r.Sum
	}
	n := int64(jobs)
	if want := n * (n - 1) / 2; handled != n || sum != want {
		return fmt.Errorf("handlers ran %d times for %d jobs, with numbers that add up to %d, want %d", handled, n, sum, want)
	}
	return verify(ctx, p, system, 0, jobs)
}

// claimFigures are the claims' of a single worker, where they were timed.
func claimFigures(results []child.Result) []result.Figure {
	f := results[0].Figures
	if len(results) > 1 || f == nil {
		return nil
	}
	return []result.Figure{is(result.ClaimP50, f["claim_p50"]), is(result.ClaimP99, f["claim_p99"])}
}
