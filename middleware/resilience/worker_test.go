package resilience_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware/resilience"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// TestOutageWithWorker: while the dependency is down few jobs are run, and when it is back all
// complete: no attempt has been used but for the runs that failed.
func TestOutageWithWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		enqueue(t, q, "mail", 300)
		enqueue(t, q, "report", 100)
		const outage = 10 * time.Minute
		up := time.Now().Add(outage)
		var failed, reported atomic.Int64
		var told changes
		mux := queue.NewMux()
		mux.Handle("mail", queue.HandlerFunc(func(context.Context, *queue.Job) error {
			time.Sleep(100 * time.Millisecond)
			if time.Now().Before(up) {
				failed.Add(1)
				return errDown
			}
			return nil
		}))
		mux.Handle("report", queue.HandlerFunc(func(context.Context, *queue.Job) error {
			if time.Now().Before(up) {
				reported.Add(1)
			}
			return nil
		}))
		h := queue.Chain(mux, resilience.CircuitBreaker(resilience.CircuitBreakerOptions{Delay: time.Minute, OnChange: told.note}))
		took := runWorker(t, q, h, 10)

		// Ten run when the fifth failure opens the circuit; then it is one each minute.
		if n := failed.Load(); n < 10 || n > 25 {
			t.Errorf("failures in ten minutes: got %d, want ten at first and one a minute", n)
		}
		if n := reported.Load(); n != 100 {
			t.Errorf("jobs of the other kind that ran meanwhile: got %d, want 100", n)
		}
		if got, want := attempts(t, q), 400+int(failed.Load()); got != want {
			t.Errorf("attempts used: got %d, want %d: one for each job and each failure", got, want)
		}
		if late := took - outage; late < 0 || late > 20*time.Minute {
			t.Errorf("all was done %v after the outage, want soon", late)
		}
		if last := told.list[len(told.list)-1]; last != "mail: half-open to closed" {
			t.Errorf("last change: got %q, want that it closed", last)
		}
	})
}

// TestShutdownDuringTrial: a trial that a shutdown cuts short is released without an attempt, and
// the next worker of the process begins with another.
func TestShutdownDuringTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tripped(t, resilience.CircuitBreakerOptions{Delay: time.Minute})
		time.Sleep(time.Minute)
		q := queuetest.New(queuetest.Options{})
		enqueue(t, q, "mail", 1)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		obeys := m(queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		if err := (engine.Worker{Backend: q, Handler: obeys, Grace: time.Second}).Run(ctx); err != nil {
			t.Fatalf("Run: %v", err)
		}
		runWorker(t, q, m(returns(nil)), 1)
		if got := attempts(t, q); got != 1 {
			t.Errorf("attempts used: got %d, want 1", got)
		}
		if got := stateOf(t, m); got != "closed" {
			t.Errorf("after a trial that was cut short and one that succeeded: got %s, want closed", got)
		}
	})
}

// TestBulkheadWithWorker: of a worker's ten slots one kind takes three.
func TestBulkheadWithWorker(t *testing.T) {
	for name, o := range map[string]resilience.BulkheadOptions{
		"at once":         {},
		"after a wait":    {MaxWait: 5 * time.Millisecond},
		"all in the wait": {MaxWait: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queuetest.New(queuetest.Options{})
				enqueue(t, q, "mail", 100)
				var c crowd
				runWorker(t, q, resilience.Bulkhead(3, o)(&c), 10)
				if most := c.most.Load(); most != 3 {
					t.Errorf("ran at once: got %d, want 3", most)
				}
				if got := attempts(t, q); got != 100 {
					t.Errorf("attempts used by 100 jobs: got %d, want 100", got)
				}
			})
		})
	}
}
