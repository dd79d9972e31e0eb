package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// ownError is an error type whose methods panic for a nil pointer. As an error such a pointer is
// not nil.
type ownError struct{ cause error }

func (e *ownError) Error() string { return e.cause.Error() }
func (e *ownError) Unwrap() error { return e.cause }

// TestErrorsThatPanic: an error whose methods panic is a plain error.
func TestErrorsThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		returned, panicked := &queue.Job{Kind: "returned"}, &queue.Job{Kind: "panicked"}
		enqueue(t, q, returned, panicked)
		handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			var nothing *ownError
			if job.Kind == "panicked" {
				panic(nothing)
			}
			return nothing
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler})
		time.Sleep(time.Second)
		w.stop()
		wantJob(t, q, returned, queue.StatusPending, 1)
		wantJob(t, q, panicked, queue.StatusPending, 1)
		wantText(t, record(t, q, returned).LastError, "ownError")
		wantText(t, record(t, q, panicked).LastError, "panic: ")
		w.log.wantLogged(t, 2, "job failed")
	})
}

// illegible is a queue with one job that cannot be read.
type illegible struct {
	*queuetest.Queue
	id int64
}

func (q illegible) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	jobs, err := q.Queue.Claim(ctx, req)
	for _, job := range jobs {
		if job.ID == q.id {
			job.Payload, job.Unreadable = nil, errors.New("no such number")
		}
	}
	return jobs, err
}

// TestUnreadable: a job that cannot be read does not run. It is dead, with the reason, and its ID
// is logged. The other jobs run.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks := newTasks(10)
		memory := queuetest.New(queuetest.Options{})
		enqueue(t, memory, tasks...)
		var ran tally
		w := start(t, engine.Worker{Backend: illegible{memory, tasks[4].ID}, Handler: ran.handle(taking(0))})
		time.Sleep(time.Second)
		w.stop()
		wantCount(t, memory, queue.StatusCompleted, 9)
		wantJob(t, memory, tasks[4], queue.StatusDead, 1)
		wantText(t, record(t, memory, tasks[4]).LastError, "no such number")
		w.log.wantLogged(t, 1, "job is dead")
	})
}

// TestGoexitOfLostJob: the handler of a lost job ends its goroutine. Its slot runs the next job.
func TestGoexitOfLostJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := runForAMinute(t, thief{newQueue(t, 3)}, func(ctx context.Context, _ *queue.Job) error {
			<-ctx.Done()
			exitGoroutine()
			return nil
		})
		if ran < 3 {
			t.Errorf("jobs that ran: got %d, want 3 or more", ran)
		}
	})
}

// settleInTx settles the job in the handler's own transaction.
func settleInTx(ctx context.Context, q *queuetest.Queue, job *queue.Job, commit bool) error {
	tx, err := q.Begin(ctx)
	if err != nil {
		return err
	}
	lost, err := q.Settle(ctx, tx, queue.Outcome{Job: job, Action: queue.Done})
	if err != nil || len(lost) > 0 {
		return errors.Join(err, queue.ErrLost)
	}
	time.Sleep(2 * time.Minute) // leases last meanwhile
	if !commit {
		return errors.Join(errPlain, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return queue.ErrSettled
}

func TestSettledByItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		commits, rollsBack := &queue.Job{Kind: "commits"}, &queue.Job{Kind: "rolls back"}
		enqueue(t, q, commits, rollsBack)
		handler := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			return settleInTx(ctx, q, job, job.Kind == "commits")
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler})
		time.Sleep(2*time.Minute + time.Second)
		wantJob(t, q, commits, queue.StatusCompleted, 1)
		wantJob(t, q, rollsBack, queue.StatusPending, 1)
		w.stop()
		w.log.wantLogged(t, 1, "job failed")
		w.log.wantLogged(t, 1, "")
	})
}

// TestManyStuckHandlers: each handler is reported once, with its own stack.
func TestManyStuckHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		q := newQueue(t, n)
		let := make(chan struct{})
		w := start(t, engine.Worker{Backend: q, Handler: stubborn(let), Concurrency: n, Timeout: time.Minute, Grace: time.Minute})
		time.Sleep(time.Hour)
		w.cancel()
		if _, err := w.wait(); err == nil {
			t.Error("Run: got nil, want an error for the handlers that still run")
		}
		stacks := make(map[any]bool)
		for _, rec := range w.log.find(t, "ignores that its context has ended") {
			stacks[rec["stack"]] = true
			wantText(t, rec["stack"].(string), "goroutine ", "beStubborn")
		}
		if len(stacks) != n {
			t.Errorf("stacks reported: got %d, want %d", len(stacks), n)
		}
		w.log.wantLogged(t, n, "ignores that its context has ended")
		wantCount(t, q, queue.StatusPending, n)
		close(let)
	})
}

// TestFailuresNameTheirJob: each failure is one record with the keys that identify the job. start's
// logs check that no record contains a payload.
func TestFailuresNameTheirJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 4)
		handler := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			switch job.ID {
			case 1:
				return errPlain
			case 2:
				return queue.Discard(errPlain)
			case 3:
				panic(errPlain)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Timeout: time.Second})
		time.Sleep(2 * time.Second)
		w.stop()
		w.log.wantLogged(t, 4, "")
		for _, rec := range w.log.find(t, "job ") {
			if rec["kind"] != work.Name || rec["queue"] != queue.DefaultQueue || rec["attempt"] != 1.0 || rec["error"] == "" {
				t.Errorf("record: got %v, want kind, queue, attempt and error", rec)
			}
		}
	})
}
