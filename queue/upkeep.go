package queue

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	// reclaimSlice is the most jobs taken back in one statement.
	reclaimSlice = 1000
	// pruneEvery is how often, on average, a worker prunes, and pruneTimeout what
	// one slice of it may take.
	pruneEvery   = time.Minute
	pruneTimeout = 30 * time.Second
	// prunePause between two slices leaves the database to others.
	prunePause = 10 * time.Millisecond
	// longestPause is the longest that a failing call is not tried again.
	longestPause = 3 * time.Second
)

// reclaim takes jobs back from workers whose leases ran out, every quarter of a lease
// or so. Each worker does it, so none has to lead, at times that drift apart. None
// does it in the first seconds after an outage: leases ran out with nobody to
// blame, and their holders are about to extend and settle what they hold.
func (r *run) reclaim(ctx context.Context) {
	reclaimer, ok := As[Reclaimer](r.Backend)
	if !ok {
		return
	}
	db := r.watch("reclaim")
	for sleep(ctx, jitter(r.Lease/4)) {
		if r.outageWithin(2 * longestPause) {
			continue
		}
		jobs, err := reclaimAll(ctx, reclaimer)
		if ctx.Err() == nil {
			db.report(err)
		}
		for _, job := range jobs {
			r.Logger.Warn("errand: lease ran out, job taken back",
				append(jobAttrs(job), "error", job.LastError, "dead", job.Attempt >= job.MaxAttempts)...)
		}
		if len(jobs) > 0 {
			signal(r.wake)
		}
	}
}

func reclaimAll(ctx context.Context, reclaimer Reclaimer) (all []*Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	for {
		jobs, err := reclaimer.Reclaim(ctx, reclaimSlice)
		all = append(all, jobs...)
		if err != nil || len(jobs) < reclaimSlice {
			return all, err
		}
	}
}

// noteOutage notes that the database could not be reached just now.
func (r *run) noteOutage() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outage = time.Now()
}

func (r *run) outageWithin(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.outage.IsZero() && time.Since(r.outage) < d
}

// prune removes what has ended and been kept for long enough, slice by slice.
func (r *run) prune(ctx context.Context) {
	pruner, ok := As[Pruner](r.Backend)
	if !ok {
		return
	}
	db := r.watch("prune")
	for sleep(ctx, jitter(pruneEvery)) {
		for more := true; more; more = more && sleep(ctx, prunePause) {
			var err error
			more, err = pruneOnce(ctx, pruner)
			if ctx.Err() == nil {
				db.report(err)
			}
		}
	}
}

func pruneOnce(ctx context.Context, pruner Pruner) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	_, more, err = pruner.Prune(ctx)
	return more && err == nil, err
}

// jitter is d, give or take half of it.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// watch tells in the log when one of the worker's calls begins to fail, when it fails
// differently, and when it works again, and how long to pause in between. It belongs to one
// goroutine.
type watch struct {
	log       *slog.Logger
	operation string
	failures  int
	since     time.Time
	logged    []string // the shapes of the errors since then
}

// maxShapes bounds how many different errors of one outage are logged.
const maxShapes = 10

func (r *run) watch(operation string) *watch {
	return &watch{log: r.Logger.With("worker", r.Name), operation: operation}
}

// report notes what a call returned. The pause after a failure is 50 ms, doubled
// for each failure before, at most 3 s, of which up to half is left out at random.
func (w *watch) report(err error) (pause time.Duration) {
	const shortest = 50 * time.Millisecond
	switch {
	case err != nil:
		if w.failures == 0 {
			w.since = time.Now()
		}
		if w.isNew(err) {
			w.log.Error("errand: "+w.operation+" failed, will retry", "error", err)
		}
		pause = min(shortest<<min(w.failures, 10), longestPause)
		w.failures++
		return pause - rand.N(pause/2)
	case w.failures > 0:
		w.log.Info("errand: "+w.operation+" works again", "failures", w.failures, "after", time.Since(w.since))
		w.failures = 0
		w.logged = nil
	}
	return 0
}

// isNew reports whether no error like err has been logged since the call last worked. Digits make
// no difference: ports, addresses and durations change with each try.
func (w *watch) isNew(err error) bool {
	shape := strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return -1
		}
		return c
	}, ErrorText(err))
	if len(w.logged) == maxShapes || slices.Contains(w.logged, shape) {
		return false
	}
	w.logged = append(w.logged, shape)
	return true
}
