package writelock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Problem: the writers of one process would compete for SQLite's lock by chance, and the extension
// of a lease could wait until the lease has expired.
// Rule: one writer at a time: urgent ones first, the others in the order in which they came. After
// a long writer, the ordinary writers that wait when it ends go before the next long one.
// Bounds: a writer waits for its timeout, a long writer until its context ends.
// Shown by: TestTxKeepsLeases, BenchmarkEnqueueAmongLong, TestTurnsOrder, TestEndlessTurn.

// Rank says which writer of a process goes first.
type Rank int

const (
	Urgent   Rank = iota // the extension of leases, which expire while it waits
	Ordinary             // any other call
	Long                 // a caller's transaction, which may last as long as a handler
	ranks
)

// turns lets one writer of the process in after another.
type turns struct {
	mu      sync.Mutex
	taken   bool
	holder  Rank
	waiting [ranks][]chan struct{} // closed when it is their turn
	owed    int                    // how many ordinary writers go in before the next long one
}

// enter waits for the turn until ctx ends or timeout is over.
func (t *turns) enter(ctx context.Context, r Rank, timeout time.Duration) error {
	mine := t.join(r)
	select {
	case <-mine:
		return nil
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		t.quit(mine)
		return ctx.Err()
	case <-timer.C:
		t.quit(mine)
		return fmt.Errorf("other writers of this process have had the write lock for %v", timeout)
	}
}

func (t *turns) join(r Rank) (mine chan struct{}) {
	mine = make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[r] = append(t.waiting[r], mine)
	if !t.taken {
		t.next()
	}
	return mine
}

// quit stops waiting. If the turn has just come, quit ends it.
func (t *turns) quit(mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r, all := range t.waiting {
		if i := slices.Index(all, mine); i >= 0 {
			t.waiting[r] = slices.Delete(all, i, i+1)
			return
		}
	}
	t.next()
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder == Long {
		t.owed = len(t.waiting[Ordinary])
	}
	t.next()
}

// next lets the next writer in, if one waits. The caller holds the mutex.
func (t *turns) next() {
	var r Rank
	switch {
	case len(t.waiting[Urgent]) > 0:
		r = Urgent
	case len(t.waiting[Ordinary]) > 0 && (t.owed > 0 || len(t.waiting[Long]) == 0):
		r = Ordinary
		t.owed = max(t.owed-1, 0)
	case len(t.waiting[Long]) > 0:
		r, t.owed = Long, 0
	default:
		t.taken, t.owed = false, 0
		return
	}
	t.taken, t.holder = true, r
	close(t.waiting[r][0])
	t.waiting[r] = slices.Delete(t.waiting[r], 0, 1)
}
