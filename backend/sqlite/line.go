package sqlite

import (
	"context"
	"fmt"
	"os"
	"time"
)

// line is where the processes that write to a file wait for one another: a lock, by the operating system, on an empty file beside the
// database, whose name ends in -turn. SQLite wakes nobody when its own lock becomes free; the operating system does, and lets
// those go first who have waited longest. It is for order alone: SQLite's lock is what protects the data, and
// where there is no such lock, or no such file, each process tries again and again.
type line struct {
	at *os.File // nil where there is none
}

func lineAt(path string) line {
	// Reading is enough to lock, so the first to open it may be another user.
	at, err := os.OpenFile(path+"-turn", os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return line{}
	}
	return line{at}
}

// enter waits for the turn of this process until ctx ends, or timeout is over. Then it keeps its place, and
// calls abandoned when it has come to the front and left.
func (l line) enter(ctx context.Context, timeout time.Duration, abandoned func()) (err error) {
	if l.at == nil || tryLock(l.at) {
		return nil
	}
	locked := make(chan struct{})
	go func() {
		lock(l.at)
		close(locked)
	}()
	select {
	case <-locked:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(timeout):
		err = fmt.Errorf("another process has had the write lock for %v", timeout)
	}
	go func() {
		<-locked
		l.leave()
		abandoned()
	}()
	return err
}

// leave lets the next process in.
func (l line) leave() {
	if l.at != nil {
		unlock(l.at)
	}
}
