package engine

import (
	"context"
	"time"
)

// Cancelling jobs that run.
//
//   - Problem: a person wants a running job to end. Its worker may be any process, and it must not
//     take a heartbeat to learn of it where the backend can notify it.
//   - Rule: the database says which jobs are to be cancelled, in each answer of Extend. A
//     notification is only a hint to extend the named jobs now. So nothing is lost with a lost
//     notification, and a forged one cancels nothing.
//   - Bounds: one Extend at a time for all hints that have come meanwhile. Hints about jobs that
//     the worker does not hold yet, because their claim is under way, are kept for claimTimeout,
//     and at most maxHints of them.
//   - Test: TestCancelRunning, TestCancelHinted.

// maxHints is how many hints about jobs that the worker does not hold are kept.
const maxHints = 10_000

// hints are the jobs that the backend has named as to be cancelled.
type hints struct {
	all  bool                // any job may be: the backend cannot tell which
	jobs map[int64]time.Time // by ID: when the backend named it
}

// noteHint notes that the backend has named jobs as to be cancelled, or all jobs if it names none.
func (l *leases) noteHint(ids ...int64) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hints.all = l.hints.all || len(ids) == 0
	for _, id := range ids {
		if l.hints.jobs == nil || len(l.hints.jobs) >= maxHints {
			l.hints.jobs = make(map[int64]time.Time)
		}
		l.hints.jobs[id] = now
	}
	signal(l.hinted)
}

// hintLoop extends the leases of the jobs that noteHint has noted, until ctx ends: the answer says
// which of them to cancel. If it fails, the next heartbeat asks again and reports the error.
func (l *leases) hintLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.hinted:
		}
		_ = l.extendAll(ctx, l.takeHinted(time.Now()))
	}
}

// takeHinted returns the held jobs that noteHint has noted, and forgets them. It keeps the hints
// about other jobs for a while. It locks l.mu before held.mu.
func (l *leases) takeHinted(now time.Time) []*heldJob {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.held.named(&l.hints)
	l.hints.all = false
	for id, since := range l.hints.jobs {
		if now.Sub(since) > claimTimeout {
			delete(l.hints.jobs, id)
		}
	}
	return batch
}

// recheckHints signals the hint loop if a hint may be about one of the jobs that have just been
// claimed.
func (l *leases) recheckHints() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.hints.jobs) > 0 {
		signal(l.hinted)
	}
}
