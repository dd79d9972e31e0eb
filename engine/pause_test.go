package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// untold is a queue that tells nobody of anything: Listen or CheckListen says so. It counts how
// often the paused kinds are read. After a thousand times it waits for ctx, so that a worker that
// reads without a pause does not hang the test.
type untold struct {
	*queuetest.Queue
	isSilent bool // Listen goes on, and CheckListen returns an error
	reads    atomic.Int32
}

func (u *untold) Listen(ctx context.Context, _ string, _ []string, _ func(driver.Signal)) error {
	if u.isSilent {
		<-ctx.Done()
		return nil
	}
	return errDown
}

func (u *untold) CheckListen(string) error { return errDown }

func (u *untold) PausedKinds(ctx context.Context) ([]string, error) {
	if u.reads.Add(1) > 1000 {
		<-ctx.Done()
	}
	return u.Queue.PausedKinds(ctx)
}

// TestPausesArePolled: a worker that is not told of paused kinds reads them every five seconds, or
// as seldom as its Poll, and at least twice a minute.
func TestPausesArePolled(t *testing.T) {
	for poll, want := range map[time.Duration]int32{0: 120, 20 * time.Second: 30, 30 * time.Second: 20, time.Hour: 20} {
		for _, isSilent := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				q := &untold{Queue: newQueue(t, 0), isSilent: isSilent}
				mux := queue.NewMux()
				mux.Handle("task", taking(0))
				w := start(t, engine.Worker{Backend: q, Handler: mux, Poll: poll})
				time.Sleep(10*time.Minute + time.Second)
				w.stop()
				if got := q.reads.Load(); got < want || got > want+2 {
					t.Errorf("Poll %v, silent: %v: the paused kinds were read %d times in 10 minutes, want %d", poll, isSilent, got, want)
				}
			})
		}
	}
}
