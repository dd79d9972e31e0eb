package resilience_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/middleware/resilience"
	"github.com/errandhq/errand/queue"
)

// crowd is a handler that counts how many run at once.
type crowd struct{ now, most, ran atomic.Int64 }

func (c *crowd) HandleJob(context.Context, *queue.Job) error {
	now := c.now.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	time.Sleep(10 * time.Millisecond)
	c.now.Add(-1)
	c.ran.Add(1)
	return nil
}

func TestBulkheadLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		h := resilience.Bulkhead(7, resilience.BulkheadOptions{MaxWait: time.Minute})(&c)
		var jobs sync.WaitGroup
		for range 100 {
			jobs.Go(func() {
				if err := h.HandleJob(t.Context(), newJob("mail")); err != nil {
					t.Errorf("a job that waited: got error %v, want nil", err)
				}
			})
		}
		jobs.Wait()
		if most, ran := c.most.Load(), c.ran.Load(); most != 7 || ran != 100 {
			t.Errorf("of 100 jobs %d ran, %d at once; want all, and 7", ran, most)
		}
	})
}

func TestBulkheadSnoozes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := resilience.Bulkhead(2, resilience.BulkheadOptions{})
		first, second := hold(t, m, "mail"), hold(t, m, "mail")
		wantSnoozed(t, "beyond the limit", m, "mail", time.Second, 1100*time.Millisecond)
		wantRan(t, "of another kind", m, "report", errDown)
		first.end(errDown)
		wantRan(t, "in a place that got free", m, "mail", nil)
		second.end(nil)
	})
}

func TestBulkheadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := resilience.Bulkhead(1, resilience.BulkheadOptions{MaxWait: 5 * time.Second, Snooze: time.Minute})
		first := hold(t, m, "mail")
		from := time.Now()
		wantSnoozed(t, "after the wait", m, "mail", time.Minute, 66*time.Second)
		if waited := time.Since(from); waited != 5*time.Second {
			t.Errorf("waited %v, want 5s", waited)
		}
		time.AfterFunc(3*time.Second, func() { first.end(nil) })
		from = time.Now()
		wantRan(t, "in a place that got free meanwhile", m, "mail", nil)
		if waited := time.Since(from); waited != 3*time.Second {
			t.Errorf("waited %v, want 3s", waited)
		}
	})
}

// TestBulkheadWaitEnds: with the context, and with its cause.
func TestBulkheadWaitEnds(t *testing.T) {
	for _, cause := range []error{queue.ErrShutdown, queue.ErrLost, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			m := resilience.Bulkhead(1, resilience.BulkheadOptions{MaxWait: time.Hour})
			first := hold(t, m, "mail")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cancel(cause) })
			from := time.Now()
			err := m(returns(nil)).HandleJob(ctx, newJob("mail"))
			if waited := time.Since(from); !errors.Is(err, cause) || waited != time.Minute {
				t.Errorf("got error %v after %v, want %v after a minute", err, waited, cause)
			}
			first.end(nil)
			wantRan(t, "after a wait that ended", m, "mail", nil)
			if action, _ := queue.ActionOf(middleware.Retry()(returns(err)).HandleJob(t.Context(), newJob("mail"))); action != queue.Retry {
				t.Errorf("%v: got %v from Retry, want retry: the job has not run", err, action)
			}
		})
	}
}

func TestBulkheadReleases(t *testing.T) {
	for name, run := range map[string]func() error{
		"an error": func() error { return errDown },
		"a panic":  func() error { panic("boom") },
		"Goexit":   func() error { runtime.Goexit(); return nil },
	} {
		m := resilience.Bulkhead(1, resilience.BulkheadOptions{})
		for range 3 {
			runAlone(t.Context(), m(queue.HandlerFunc(func(context.Context, *queue.Job) error { return run() })))
		}
		wantRan(t, "after "+name, m, "mail", nil)
	}
}

func TestBulkheadOptions(t *testing.T) {
	for want, f := range map[string]func(){
		"resilience: Bulkhead: limit 0: at least 1":                        func() { resilience.Bulkhead(0, resilience.BulkheadOptions{}) },
		"resilience: BulkheadOptions.MaxWait -1s: between 0 and 8760h0m0s": func() { resilience.Bulkhead(1, resilience.BulkheadOptions{MaxWait: -time.Second}) },
		"resilience: BulkheadOptions.Snooze -1s: between 0 and 8760h0m0s":  func() { resilience.Bulkhead(1, resilience.BulkheadOptions{Snooze: -time.Second}) },
	} {
		wantPanic(t, want, f)
	}
}
