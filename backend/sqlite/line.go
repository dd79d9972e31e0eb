package sqlite

import (
	"context"
	"os"
	"sync"
	"time"
)

// line is where the processes that write to a file wait for one another: a lock, by the operating system, on an empty file beside the
// database, whose name ends in -turn. SQLite wakes nobody when its own lock becomes free; the operating system does, and lets
// those go first who have waited longest. It is for order alone: SQLite's lock is what protects the data, and
// where there is no such lock, or no such file, each process tries again and again.
//
// The file has the mode of the database: a process that can open it can make writers wait.
type line struct {
	at *os.File // nil where there is none

	mu     sync.Mutex
	mine   chan struct{} // of the writer that waits or has the turn, closed when the turn comes; nil if there is none
	held   bool          // the lock
	asking bool          // a goroutine waits for the lock
	stuck  bool          // a writer has waited for too long, and the lock has not come since
}

// lineShare is the part of LockTimeout for which a writer waits in line before it tries SQLite's own lock: one in so many.
// The process that has the lock may have been stopped, or may keep it on purpose.
const lineShare = 10

// enter waits for the turn of this process: until ctx ends, or for timeout, after which the caller goes on without, and has the turn
// if it comes before leave. Only one writer of a process is between enter and leave.
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
	case l.asking: // for a writer that has not waited for it
	case tryLock(l.at):
		l.held = true
		close(l.mine)
	default:
		l.asking = true
		go l.ask()
	}
	return l.mine, l.stuck
}

// ask waits for the lock, and gives it to the writer that waits then.
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

// giveUp notes that the lock does not come, so that the next writers do not wait for it.
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
