// Package writelock orders the writers of one SQLite file, in this process and in others. SQLite
// has one write lock for the whole file, and its own way to wait for it is to sleep and try again:
// it has no queue, and tells nobody when the lock becomes free.
//
// [Lock.Acquire] is the door. Behind it are four mechanisms, each in a file that begins with its
// problem, its rule, its bounds, and the test that shows it: turns within the process, the line of
// processes, trying again while SQLite is busy, and rests for writers that do not come through
// here. They are for order alone. SQLite's own lock is what protects the data.
package writelock

import (
	"context"
	"math"
	"time"
)

// Lock orders the writers of one file. All backends of a process that use the file share one Lock.
type Lock struct {
	turns turns
	line  line
	rests rests
}

// New returns the lock of the database file at path.
func New(path string) *Lock { return &Lock{line: line{at: openTurnFile(path)}} }

// forever is the timeout of a writer that waits until its context ends.
const forever time.Duration = math.MaxInt64

// Turn is the time in which one writer of all may write. The others wait until Release.
type Turn struct {
	lock    *Lock
	rank    Rank
	timeout time.Duration
	begun   time.Time // when it began to wait for others than the writers of this process
	tried   time.Time // when it last tried to get SQLite's lock
	tries   int
}

// Acquire waits for the turn within this process, calls connect, which takes a connection, and then
// waits for the turn of this process. This order lets a process without a free connection stop no
// other process, and lets writers that wait within the process hold no connection. Acquire fails
// after timeout. A writer of rank Long waits within the process until ctx ends, and for timeout
// from then on. The context of connect ends at the same time.
func (l *Lock) Acquire(ctx context.Context, rank Rank, timeout time.Duration, connect func(context.Context) error) (*Turn, error) {
	t := &Turn{lock: l, rank: rank, timeout: timeout, begun: time.Now()}
	patience := timeout
	if rank == Long {
		patience = forever
	}
	if err := l.turns.enter(ctx, rank, patience); err != nil {
		return nil, err
	}
	isTaken := false
	defer func() {
		if !isTaken { // also where connect has panicked
			l.turns.leave()
		}
	}()
	if rank == Long {
		t.begun = time.Now()
	}
	waiting, stop := context.WithDeadline(ctx, t.begun.Add(timeout))
	defer stop()
	if err := connect(waiting); err != nil {
		return nil, err
	}
	if err := l.line.enter(ctx, timeout/lineShare); err != nil {
		return nil, err
	}
	isTaken = true
	return t, nil
}

// Try runs f, again while another connection has SQLite's write lock, until ctx ends or the timeout
// of Acquire is over. What f does is undone where it fails.
func (t *Turn) Try(ctx context.Context, f func() error) error {
	return retryBusy(ctx, t.begun, t.timeout, func() error {
		t.tried = time.Now()
		t.tries++
		return f()
	})
}

// Release lets the next writer in, after the rest that the application's own transactions need.
// appActive says that the application may have one open. Release does not block.
func (t *Turn) Release(appActive bool) {
	held := time.Since(t.tried)
	if t.rank == Long {
		time.AfterFunc(restAfterLong(held), func() { t.lock.leave(0) })
		return
	}
	t.lock.leave(t.lock.rests.after(held, t.tries, appActive))
}

// leave lets another process write at once, and the next writer of this one after a while.
func (l *Lock) leave(rest time.Duration) {
	l.line.leave()
	if rest == 0 {
		l.turns.leave()
		return
	}
	time.AfterFunc(rest, l.turns.leave)
}
