package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// unwoken is a memory queue whose Listen wakes nobody.
type unwoken struct {
	*queuetest.Queue
	listen func(ctx context.Context) error
	err    atomic.Pointer[error] // of CheckListen
	report atomic.Pointer[driver.WorkerReport]
}

func (u *unwoken) Listen(ctx context.Context, _ string, _ []string, _ func(driver.Signal)) error {
	return u.listen(ctx)
}

func (u *unwoken) CheckListen(string) error {
	if err := u.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (u *unwoken) ReportWorkers(_ context.Context, reports ...driver.WorkerReport) error {
	if len(reports) > 0 && !reports[0].Stopped {
		u.report.Store(&reports[0])
	}
	return nil
}

// startLatency returns how long after its Enqueue a job starts.
func startLatency(t *testing.T, q queue.Enqueuer, started <-chan time.Time) time.Duration {
	t.Helper()
	began := time.Now()
	enqueue(t, q, newTask(1))
	return (<-started).Sub(began)
}

// TestListenFails: while its backend cannot listen, a worker polls each second, logs that once, and
// reports that it polls. It sleeps longer again once the backend listens.
func TestListenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &unwoken{Queue: queuetest.New(queuetest.Options{}), listen: func(ctx context.Context) error { <-ctx.Done(); return nil }}
		started := make(chan time.Time, 1)
		r := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error {
			started <- time.Now()
			return nil
		})})
		time.Sleep(20*time.Second + time.Millisecond)
		refused := errors.New("password authentication failed")
		q.err.Store(&refused)
		time.Sleep(1100 * time.Millisecond)
		for range 5 {
			if took := startLatency(t, q, started); took > time.Second {
				t.Errorf("while listening fails: a job starts after %v, want the poll of a second", took)
			}
			time.Sleep(2700 * time.Millisecond)
		}
		if got := q.report.Load(); got == nil || got.Listens || got.Poll != time.Second {
			t.Errorf("report: %+v, want a worker that does not listen, with a Poll of 1s", got)
		}
		r.log.wantLogged(t, 1, "errand: listening for jobs failed, will retry")
		q.err.Store(nil)
		time.Sleep(20 * time.Second)
		if got := q.report.Load(); !got.Listens || got.Poll != 5*time.Second {
			t.Errorf("report: %+v, want a worker that listens, with a Poll of 5s", got)
		}
		r.log.wantLogged(t, 1, "errand: listening for jobs works again")
		r.stop()
	})
}

// TestListenUnsupportedLate: a backend may find out late that it cannot wake workers. The sleep
// that has begun by then ends at the poll of a worker that is not woken, too.
func TestListenUnsupportedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &unwoken{Queue: queuetest.New(queuetest.Options{}), listen: func(ctx context.Context) error {
			time.Sleep(500 * time.Millisecond)
			return errors.ErrUnsupported
		}}
		started := make(chan time.Time, 1)
		r := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error {
			started <- time.Now()
			return nil
		})})
		time.Sleep(600 * time.Millisecond)
		if took := startLatency(t, q, started); took > time.Second {
			t.Errorf("the first job starts after %v, want the poll of a second", took)
		}
		r.stop()
	})
}
