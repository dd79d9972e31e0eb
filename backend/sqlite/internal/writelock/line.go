package writelock

import (
	"context"
	"os"
	"sync"
	"time"
)

// Problem: processes that each try SQLite's lock again and again pass one another by chance. Some
// wait for many seconds, and their leases end.
// Rule: the writer whose turn it is in its process locks an empty file beside the database, whose
// name ends in -turn. The operating system wakes the processes in the order in which they came.
// Bounds: a writer waits for a tenth of its timeout, and the next ones not at all until the lock
// comes: the process that has it may have been stopped. A process that can open the database can
// make writers wait. Where there is no flock, or no such file, the line is empty.
// Shown by: BenchmarkExtendAmongProcesses, TestTurn, TestTurnNeverComes.

// line is where the processes that write to a file wait for one another.
type line struct {
	at *os.File // nil where there is no line

	mu     sync.Mutex
	mine   chan struct{} // closed when the turn of this process's writer comes; nil without a writer
	held   bool          // this process has the lock
	asking bool          // a goroutine waits for the lock
	stuck  bool          // a writer waited for too long, and the lock has not come since
}

// lineShare is the part of its timeout for which a writer waits in line: one in so many.
const lineShare = 10

// enter waits for the turn of this process until ctx ends. After timeout it returns nil all the
// same: SQLite's own lock is enough, and the turn may still come before leave. Only one writer of a
// process is between enter and leave.
func (l *line) enter(ctx context.Context, timeout time.Duration) error {
	if l.at == nil {
		return nil
	}
	mine, stuck := l.join()
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
		l.leave()
		return ctx.Err()
	case <-timer.C:
		l.giveUp()
		return nil
	}
}

func (l *line) join() (mine chan struct{}, stuck bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine = make(chan struct{})
	switch {
	case l.asking: // since an earlier writer, which gave up
	case tryLock(l.at):
		l.held = true
		close(l.mine)
	default:
		l.asking = true
		go l.ask()
	}
	return l.mine, l.stuck
}

// ask waits for the lock, and gives it to the writer that waits by then, if one does.
func (l *line) ask() {
	lock(l.at)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking, l.stuck = false, false
	if l.mine == nil {
		unlock(l.at)
		return
	}
	l.held = true
	close(l.mine)
}

// giveUp records that the lock does not come, so that the next writers do not wait for it.
func (l *line) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck = l.asking
}

// leave lets the next process in.
func (l *line) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mine = nil
	if l.held {
		l.held = false
		unlock(l.at)
	}
}
