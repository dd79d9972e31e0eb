package writelock

import (
	"context"
	"os"
	"sync"
	"time"
)

// Problem: if each process tries SQLite's lock again and again, chance decides which one gets it.
// Some wait for many seconds, and their leases expire.
// Rule: the writer whose turn it is in its process locks an empty file beside the database, whose
// name ends in -turn. The operating system wakes the processes in the order in which they came.
// Bounds: a writer waits for a tenth of its timeout. After one timeout later writers skip the wait
// until the lock is granted: the process that has it may have been stopped. A process that can open
// the database can make writers wait. Without flock, or without such a file, no writer waits here.
// Shown by: BenchmarkExtendAmongProcesses, TestTurn, TestTurnNeverComes.

// processQueue is the queue of the processes that write to one file.
type processQueue struct {
	at *os.File // the lock file; nil if there is none

	mu     sync.Mutex
	mine   chan struct{} // closed when this process's writer has its turn; nil without a writer
	held   bool          // this process has the lock
	asking bool          // a goroutine waits for the lock
	stuck  bool          // a writer has waited for too long, and the lock has not been granted since
}

// waitShare is the part of its timeout for which a writer waits here: a tenth.
const waitShare = 10

// enter waits for the turn of this process until ctx ends. After timeout it returns nil without the
// turn: SQLite's own lock is enough. The turn may still come before leave. Only one writer of a
// process may be between enter and leave.
func (q *processQueue) enter(ctx context.Context, timeout time.Duration) error {
	if q.at == nil {
		return nil
	}
	mine, stuck := q.join()
	select {
	case <-mine:
		return nil
	default:
	}
	if stuck {
		timeout = 0
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
		q.leave()
		return ctx.Err()
	case <-timer.C:
		q.giveUp()
		return nil
	}
}

func (q *processQueue) join() (mine chan struct{}, stuck bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mine = make(chan struct{})
	switch {
	case q.asking: // an earlier writer, which gave up, has started the goroutine
	case tryLock(q.at):
		q.held = true
		close(q.mine)
	default:
		q.asking = true
		go q.ask()
	}
	return q.mine, q.stuck
}

// ask waits for the lock. If a writer waits by then, the lock is that writer's; otherwise ask
// unlocks it.
func (q *processQueue) ask() {
	lock(q.at)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asking, q.stuck = false, false
	if q.mine == nil {
		unlock(q.at)
		return
	}
	q.held = true
	close(q.mine)
}

// giveUp records that the lock was not granted in time, so that the next writers do not wait for
// it.
func (q *processQueue) giveUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stuck = q.asking
}

// leave lets the next process in.
func (q *processQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mine = nil
	if q.held {
		q.held = false
		unlock(q.at)
	}
}
