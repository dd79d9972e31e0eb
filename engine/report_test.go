package engine_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// reported is a queue with a hook for each report of a worker.
type reported struct {
	*queuetest.Queue
	hook func(ctx context.Context, r driver.WorkerReport) error

	mu  sync.Mutex
	all []driver.WorkerReport
	at  []time.Time
}

func (q *reported) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	for _, r := range reports {
		q.mu.Lock()
		q.all, q.at = append(q.all, r), append(q.at, time.Now())
		q.mu.Unlock()
		if q.hook != nil {
			if err := q.hook(ctx, r); err != nil {
				return err
			}
		}
	}
	return q.Queue.ReportWorkers(ctx, reports...)
}

func (q *reported) reports() []driver.WorkerReport {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]driver.WorkerReport(nil), q.all...)
}

// TestReports: a worker reports itself once in ten seconds, with what it does, once more when it
// drains, and at last that it has stopped.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &reported{Queue: newQueue(t, 5)}
		finish := make(chan struct{})
		mux := queue.NewMux()
		mux.Handle(work.Name, queue.HandlerFunc(func(context.Context, *queue.Job) error { <-finish; return nil }))
		began := time.Now()
		w := start(t, engine.Worker{Backend: q, Handler: mux, Name: "w", Concurrency: 2, Lease: time.Minute, Grace: time.Minute})
		time.Sleep(time.Minute + 2*time.Second)
		all := q.reports()
		if n := len(all); n != 7 {
			t.Fatalf("reports in a minute: got %d, want 7", n)
		}
		for i := range all[1:] {
			if d := q.at[i+1].Sub(q.at[i]); d != driver.ReportInterval {
				t.Errorf("pause before report %d: got %v, want %v", i+2, d, driver.ReportInterval)
			}
		}
		last := all[6]
		if last.Host == "" || last.PID == 0 || last.Age != q.at[6].Sub(began) || last.ClaimAge <= 0 || last.ClaimAge > last.Age {
			t.Errorf("report of a busy worker: got %+v", last)
		}
		want := driver.WorkerInfo{
			Name: "w", Host: last.Host, PID: last.PID, Version: last.Version, Queues: []string{"default"}, Kinds: []string{work.Name},
			Concurrency: 2, Busy: 2, Lease: time.Minute, Grace: time.Minute, Listens: true, Poll: 5 * time.Second,
		}
		if !reflect.DeepEqual(last.WorkerInfo, want) || last.DrainAge != 0 || last.Stopped {
			t.Errorf("report of a busy worker: got %+v, want %+v", last, want)
		}

		w.cancel()
		time.Sleep(5 * time.Second)
		all = q.reports()
		if n := len(all); n != 8 || all[7].DrainAge != time.Second || all[7].Busy != 2 {
			t.Errorf("reports after the order to stop: got %d, the last %+v; want 8, the last of a worker that drains", n, all[n-1])
		}
		close(finish)
		w.stop()
		all = q.reports()
		if n := len(all); n != 9 || !all[8].Stopped || all[8].Name != "w" {
			t.Errorf("reports of a worker that has stopped: got %d, the last %+v; want 9", n, all[n-1])
		}
		if left, err := q.Workers(t.Context()); err != nil || len(left) != 0 {
			t.Errorf("workers left: %+v, error %v", left, err)
		}
		w.log.wantLogged(t, 0, "report")
	})
}

// TestReportsOfShortWorkers: a worker that stops at once, and has run nothing, reports nothing.
func TestReportsOfShortWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &reported{Queue: newQueue(t, 0)}
		w := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })})
		time.Sleep(400 * time.Millisecond)
		w.stop()
		if all := q.reports(); len(all) != 0 {
			t.Errorf("got %+v, want no report", all)
		}
	})
}

// TestReportsFail: reports that fail are logged once, sent again no sooner than others, and change
// nothing else.
func TestReportsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &reported{Queue: newQueue(t, 0), hook: func(context.Context, driver.WorkerReport) error { return errDown }}
		w := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })})
		time.Sleep(time.Minute + 2*time.Second)
		enqueue(t, q, newTasks(10)...)
		time.Sleep(time.Second)
		wantCount(t, q, queue.StatusCompleted, 10)
		if n := len(q.reports()); n != 7 {
			t.Errorf("reports in a minute: got %d, want 7", n)
		}
		w.log.wantLogged(t, 1, "errand: report of the worker failed, will retry")
		if took := w.stop(); took > 100*time.Millisecond {
			t.Errorf("Run returned after %v, want at once", took)
		}
		w.log.wantLogged(t, 1, "errand: the last report of the worker failed")
	})
}

// TestReportHangs: a report that is never answered delays no claim, and Run by a second at most.
func TestReportHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &reported{Queue: newQueue(t, 0), hook: func(ctx context.Context, _ driver.WorkerReport) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		var slowest time.Duration
		w := start(t, engine.Worker{Backend: q, Concurrency: 1, Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			slowest = max(slowest, time.Since(job.CreatedAt))
			return nil
		})})
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			enqueue(t, q, newTask(1))
		}
		time.Sleep(time.Second)
		wantCount(t, q, queue.StatusCompleted, 200)
		if slowest > 50*time.Millisecond {
			t.Errorf("a job has waited for %v", slowest)
		}
		if took := w.stop(); took > time.Second {
			t.Errorf("Run returned after %v, want a second at most", took)
		}
	})
}

// slowAnswers is a queue that answers reports late.
type slowAnswers struct {
	*queuetest.Queue
	begun chan bool
}

func (q *slowAnswers) ReportWorkers(ctx context.Context, reports ...driver.WorkerReport) error {
	if err := q.Queue.ReportWorkers(ctx, reports...); err != nil || reports[0].Stopped {
		return err
	}
	q.begun <- true
	select {
	case <-time.After(500 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestReportWhileStopping: a worker that stops waits for the answer to the report that is under
// way, and does not report again what that has recorded.
func TestReportWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slowAnswers{newQueue(t, 3), make(chan bool, 1)}
		w := start(t, engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })})
		<-q.begun
		w.stop()
		all, err := q.Stats(t.Context(), queue.StatsFilter{})
		if err != nil || len(all) != 1 || all[0].Done != 3 {
			t.Errorf("got %+v, error %v; want 3 jobs done", all, err)
		}
		w.log.wantLogged(t, 0, "report")
	})
}

// TestReportsRefused: a worker says which outcomes the backend refuses, why and for how long, until
// it records them. A worker that stops before that reports in order that it has stopped.
func TestReportsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mends atomic.Bool
		refused := errors.New("violates check constraint")
		q := &reported{Queue: newQueue(t, 3)}
		w := start(t, engine.Worker{
			Backend: struct {
				*meddled
				driver.Fleet
			}{&meddled{Queue: q.Queue, before: func(_ context.Context, c call) error {
				if c.operation == "settle" && !mends.Load() && slices.ContainsFunc(c.jobs, func(j *queue.Job) bool { return j.ID != 2 }) {
					return refused
				}
				return nil
			}}, q},
			Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }),
		})
		last := func() driver.WorkerReport { all := q.reports(); return all[len(all)-1] }
		time.Sleep(2 * time.Second)
		if r := last(); r.RefusedCount != 0 {
			t.Errorf("report after two seconds: got %+v, want none of outcomes that may be recorded soon", r)
		}
		time.Sleep(30 * time.Second)
		r := last()
		var ids []int64
		for _, o := range r.Refused {
			ids = append(ids, o.ID)
			if o.Error != refused.Error() || o.Waited < 20*time.Second || o.Waited > 33*time.Second {
				t.Errorf("refused outcome: got %+v", o)
			}
		}
		slices.Sort(ids)
		if r.RefusedCount != 2 || !slices.Equal(ids, []int64{1, 3}) || r.Busy != 0 || r.Check() != nil {
			t.Errorf("report of a worker whose outcomes are refused: got %+v", r)
		}
		mends.Store(true)
		time.Sleep(90 * time.Second)
		if r := last(); r.RefusedCount != 0 || len(r.Refused) != 0 {
			t.Errorf("report after they are recorded: got %+v", r)
		}
		w.stop()
	})
}

// TestReportsStoppedRefused: a worker that cannot settle until its time is over still reports that
// it has stopped, and Run returns in time.
func TestReportsStoppedRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &reported{Queue: newQueue(t, 50)}
		w := start(t, engine.Worker{
			Backend: struct {
				*meddled
				driver.Fleet
			}{&meddled{Queue: q.Queue, before: func(_ context.Context, c call) error {
				if c.operation == "settle" {
					return errDown
				}
				return nil
			}}, q},
			Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }),
		})
		time.Sleep(5 * time.Second)
		w.cancel()
		if took, err := w.wait(); err == nil || took > 8*time.Second {
			t.Errorf("Run returned %v after %v, want an error within 8s", err, took)
		}
		if all := q.reports(); !all[len(all)-1].Stopped {
			t.Errorf("the last report: got %+v, want that the worker has stopped", all[len(all)-1])
		}
		if left, err := q.Workers(t.Context()); err != nil || len(left) != 0 {
			t.Errorf("workers left: %+v, error %v", left, err)
		}
		w.log.wantLogged(t, 0, "the last report")
	})
}

// TestReportsClaimError: a worker that cannot claim says why, until it can.
func TestReportsClaimError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		q := &reported{Queue: newQueue(t, 1)}
		var mu sync.Mutex
		w := start(t, engine.Worker{
			Backend: struct {
				*meddled
				driver.Fleet
			}{&meddled{Queue: q.Queue, before: func(_ context.Context, c call) error {
				mu.Lock()
				defer mu.Unlock()
				if c.operation == "claim" && fail {
					return errors.Join(errDown, errors.New("\xff\x00"))
				}
				return nil
			}}, q},
			Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }),
		})
		time.Sleep(15 * time.Second)
		all := q.reports()
		if r := all[len(all)-1]; r.ClaimError != errDown.Error()+"\n\uFFFD\uFFFD" || r.ClaimAge != 0 || r.Check() != nil {
			t.Errorf("report of a worker that cannot claim: got %+v", r)
		}
		mu.Lock()
		fail = false
		mu.Unlock()
		time.Sleep(10 * time.Second)
		all = q.reports()
		if r := all[len(all)-1]; r.ClaimError != "" || r.ClaimAge == 0 {
			t.Errorf("report of a worker that can claim again: got %+v", r)
		}
		w.stop()
	})
}
