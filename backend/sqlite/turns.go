package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// rank is what turns orders writers by.
type rank int

const (
	urgent   rank = iota // the extension of leases, which run out while it waits
	ordinary             // any other call
	long                 // a transaction of the caller's, which lasts as long as a handler may
	ranks
)

// turns lets one writer of the process in after another: urgent ones first, the others in the order in which they came. A long one is
// followed by the ordinary ones that wait when it ends, so that neither keeps the other waiting for ever.
type turns struct {
	mu      sync.Mutex
	taken   bool
	holder  rank
	waiting [ranks][]chan struct{} // closed when it is their turn
	owed    int                    // how many ordinary ones go in before the next long one
}

// forever is the timeout of a writer that waits until its context ends.
const forever time.Duration = math.MaxInt64

// enter waits for the turn until ctx ends or timeout is over.
func (t *turns) enter(ctx context.Context, r rank, timeout time.Duration) error {
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

func (t *turns) join(r rank) (mine chan struct{}) {
	mine = make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[r] = append(t.waiting[r], mine)
	if !t.taken {
		t.next()
	}
	return mine
}

// quit gives up waiting, or the turn if it has just come.
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
	if t.holder == long {
		t.owed = len(t.waiting[ordinary])
	}
	t.next()
}

// next lets one in, if somebody waits. The caller holds the mutex.
func (t *turns) next() {
	var r rank
	switch {
	case len(t.waiting[urgent]) > 0:
		r = urgent
	case len(t.waiting[ordinary]) > 0 && (t.owed > 0 || len(t.waiting[long]) == 0):
		r = ordinary
		t.owed = max(t.owed-1, 0)
	case len(t.waiting[long]) > 0:
		r, t.owed = long, 0
	default:
		t.taken, t.owed = false, 0
		return
	}
	t.taken, t.holder = true, r
	close(t.waiting[r][0])
	t.waiting[r] = slices.Delete(t.waiting[r], 0, 1)
}
