// Package writelock orders the writers of one SQLite file, in this process and in others. SQLite
// has one write lock for the whole file. It has no queue of waiters, and notifies none of them when
// the lock becomes free: a waiter sleeps and tries again.
//
// Entry point: [Lock.Acquire]. It uses four mechanisms. Each has a file, which begins with its
// problem, its rule, its bounds, and the test that shows it: turns within the process (turns.go),
// the queue of processes (process_queue.go), retries while SQLite is busy (busy.go), and rests for
// writers that do not use this package (rest.go). They only order the writers. SQLite's own lock
// protects the data.
package writelock

import (
	"context"
	"math"
	"time"
)

// Lock orders the writers of one file. All backends of a process that use the file share one Lock.
type Lock struct {
	turns     turns
	processes processQueue
	rests     rests
}

// New returns the lock of the database file at path.
func New(path string) *Lock { return &Lock{processes: processQueue{at: openTurnFile(path)}} }

// forever is the timeout of a writer that waits until its context ends.
const forever time.Duration = math.MaxInt64

// Turn is the right of one writer to write. All other writers wait until Release.
type Turn struct {
	lock    *Lock
	rank    Rank
	timeout time.Duration
	begun   time.Time // when its timeout began
	tried   time.Time // when it last tried to get SQLite's lock
	tries   int
}

// Acquire waits for the turn within this process, calls connect, which takes a connection, and then
// waits for the turn of this process. In this order a process without a free connection blocks no
// other process, and writers that wait within the process hold no connection.
//
// Acquire fails after timeout. A writer of rank Long waits within the process until ctx ends, and
// its timeout begins after that. The context of connect ends after a timeout of its own: else a
// writer whose turn comes last would be told that no connection is free.
func (l *Lock) Acquire(ctx context.Context, rank Rank, timeout time.Duration, connect func(context.Context) error) (*Turn, error) {
	t := &Turn{lock: l, rank: rank, timeout: timeout, begun: time.Now()}
	turnTimeout := timeout
	if rank == Long {
		turnTimeout = forever
	}
	if err := l.turns.enter(ctx, rank, turnTimeout); err != nil {
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
	waiting, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	if err := connect(waiting); err != nil {
		return nil, err
	}
	if err := l.processes.enter(ctx, timeout/waitShare); err != nil {
		return nil, err
	}
	isTaken = true
	return t, nil
}

// Try runs f, and again while another connection has SQLite's write lock, until ctx ends or the
// timeout of Acquire is over. A failed f must leave nothing behind.
func (t *Turn) Try(ctx context.Context, f func() error) error {
	return retryBusy(ctx, t.begun, t.timeout, func() error {
		t.tried = time.Now()
		t.tries++
		return f()
	})
}

// Release lets the next writer in, after the rest that the application's own transactions need.
// appActive says that the application may have a transaction open. Release does not block.
func (t *Turn) Release(appActive bool) {
	held := time.Since(t.tried)
	if t.rank == Long {
		time.AfterFunc(restAfterLong(held), func() { t.lock.leave(0) })
		return
	}
	t.lock.leave(t.lock.rests.after(held, t.tries, appActive))
}

// leave lets another process write at once, and the next writer of this process after rest.
func (l *Lock) leave(rest time.Duration) {
	l.processes.leave()
	if rest == 0 {
		l.turns.leave()
		return
	}
	time.AfterFunc(rest, l.turns.leave)
}
