package sqlite

import (
	"context"
	"slices"
	"sync"
)

// turns lets one writer of the process in after another, in the order in which they came, but those first whose leases
// run out while they wait.
type turns struct {
	mu           sync.Mutex
	taken        bool
	urgent, rest []chan struct{} // those who wait; closed when it is their turn
}

func (t *turns) enter(ctx context.Context, urgent bool) error {
	mine := t.join(urgent)
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		t.quit(mine)
		return ctx.Err()
	}
}

func (t *turns) join(urgent bool) (mine chan struct{}) {
	mine = make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.taken:
		t.taken = true
		close(mine)
	case urgent:
		t.urgent = append(t.urgent, mine)
	default:
		t.rest = append(t.rest, mine)
	}
	return mine
}

// quit gives up waiting, or the turn if it has just come.
func (t *turns) quit(mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func(other chan struct{}) bool { return other == mine }
	waiting := len(t.urgent) + len(t.rest)
	t.urgent, t.rest = slices.DeleteFunc(t.urgent, is), slices.DeleteFunc(t.rest, is)
	if len(t.urgent)+len(t.rest) == waiting {
		t.next()
	}
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next()
}

// next lets one in, if somebody waits. The caller holds the mutex.
func (t *turns) next() {
	from := &t.urgent
	if len(*from) == 0 {
		from = &t.rest
	}
	if len(*from) == 0 {
		t.taken = false
		return
	}
	close((*from)[0])
	*from = slices.Delete(*from, 0, 1)
}
