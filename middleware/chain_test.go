package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// These tests hold docs/middleware.md to what it says about the order of a chain.

// slow is a handler that outlasts its context and then fails with an error that says nothing of it.
func slow(err error) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
		<-ctx.Done()
		return err
	})
}

// TestTimeoutAndRetry: Retry sees the timeout only where Timeout stands inside of it.
func TestTimeoutAndRetry(t *testing.T) {
	errCopy := errors.New("copied half of it")
	timeout := middleware.Timeout(time.Second)
	retry := middleware.Retry(middleware.On(context.DeadlineExceeded, 0))
	for _, c := range []struct {
		name  string
		chain []queue.Middleware
		want  queue.OutcomeAction
	}{
		{"Timeout inside", []queue.Middleware{retry, timeout}, queue.Retry},
		{"Timeout outside", []queue.Middleware{timeout, retry}, queue.Dead},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := &queue.Job{Attempt: 1, MaxAttempts: 5}
				err := queue.Chain(slow(errCopy), c.chain...).HandleJob(t.Context(), job)
				if o, _ := queue.OutcomeOf(t.Context(), job, err); o.Action != c.want {
					t.Errorf("got %v for %q, want %v", o.Action, err, c.want)
				}
				if !errors.Is(err, errCopy) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error has lost what happened: %v", err)
				}
			})
		})
	}
}

// TestRecoverAndRetry: Retry sees a panic only where Recover stands inside of it.
func TestRecoverAndRetry(t *testing.T) {
	retry := middleware.Retry(middleware.OnFunc(func(err error) bool {
		_, panicked := errors.AsType[*queue.PanicError](err)
		return !panicked
	}, 0))
	bug := queue.HandlerFunc(func(context.Context, *queue.Job) error { panic("bug") })
	for _, c := range []struct {
		name  string
		chain []queue.Middleware
		want  queue.OutcomeAction
	}{
		{"Recover inside", []queue.Middleware{retry, middleware.Recover}, queue.Dead},
		{"Recover outside", []queue.Middleware{middleware.Recover, retry}, queue.Retry},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := &queue.Job{Attempt: 1, MaxAttempts: 5}
			err := queue.Chain(bug, c.chain...).HandleJob(t.Context(), job)
			if o, _ := queue.OutcomeOf(t.Context(), job, err); o.Action != c.want {
				t.Errorf("got %v for %q, want %v", o.Action, err, c.want)
			}
		})
	}
}

// TestRecoverAndTx: what a handler wrote before it panicked is rolled back on either side.
func TestRecoverAndTx(t *testing.T) {
	b := openBank(t)
	b.enqueue(3)
	tx := middleware.Tx(b.db, b.q, middleware.TxOptions{})
	bug := handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		if err := handle(ctx, tx, job); err != nil {
			return err
		}
		panic("bug")
	})
	for name, h := range map[string]queue.Handler{
		"Recover inside":  queue.Chain(bug, tx, middleware.Recover),
		"Recover outside": queue.Chain(bug, middleware.Recover, tx),
	} {
		err := h.HandleJob(t.Context(), b.claimOne())
		if _, ok := errors.AsType[*queue.PanicError](err); !ok {
			t.Errorf("%s: got %v, want a PanicError", name, err)
		}
	}
	wantPanic(t, "bug", func() { _ = queue.Chain(bug, tx).HandleJob(t.Context(), b.claimOne()) })
	b.want(0, queue.StatusRunning, 3)
	if n := b.db.Stats().InUse; n != 0 {
		t.Errorf("connections in use after the panics: got %d, want 0", n)
	}
}

// TestDedupAndTx: outside of Tx a store in memory remembers what has been committed, and nothing
// else.
func TestDedupAndTx(t *testing.T) {
	b := openBank(t)
	b.enqueue(3)
	cut := true
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		if err := handle(ctx, tx, job); err != nil || !cut {
			return err
		}
		return tx.Rollback() // the commit that follows fails
	}),
		middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, func(*queue.Job) string { return "the key" }),
		middleware.Tx(b.db, b.q, middleware.TxOptions{}))
	if err := h.HandleJob(t.Context(), b.claimOne()); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("a failing commit: got %v, want sql.ErrTxDone", err)
	}
	cut = false
	if err := h.HandleJob(t.Context(), b.claimOne()); !errors.Is(err, queue.ErrSettled) {
		t.Errorf("got %v, want ErrSettled", err)
	}
	if err := h.HandleJob(t.Context(), b.claimOne()); err != nil {
		t.Errorf("the duplicate: got %v, want nil: the worker is to settle it", err)
	}
	b.want(1, queue.StatusCompleted, 1)
}

// TestWholeChain: all of it, in the order that the documentation shows, on a real worker.
func TestWholeChain(t *testing.T) {
	const jobs = 30
	b := openBank(t)
	secret, err := middleware.NewEncrypt(middleware.EncryptOptions{Current: "k1", Keys: middleware.Keys{"k1": make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	short := middleware.Compress{Min: 1}
	sender := queue.ChainEnqueuer(b.q, short.Enqueuer, secret.Enqueuer)
	for i := range jobs {
		if err := sender.Enqueue(t.Context(), nil, pay.New(payment{Order: i % 10})); err != nil {
			t.Fatal(err)
		}
	}
	mux := queue.NewMux()
	pay.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, job *queue.Job, p payment) error {
		if job.Attempt == 1 && p.Order == 3 {
			panic("bug")
		}
		return handle(ctx, tx, job)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for b.count(`SELECT count(*) FROM errand.jobs WHERE status <> 'completed'`) > 0 && !t.Failed() {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	err = engine.Worker{Backend: b.q, Logger: quiet, Handler: queue.Chain(mux,
		middleware.Log(quiet),
		middleware.Retry(middleware.OnType[*queue.PanicError](3)),
		middleware.Backoff(middleware.Fixed{Base: time.Millisecond}),
		middleware.Recover,
		middleware.Timeout(time.Minute),
		secret.Handler,
		short.Handler,
		middleware.Tx(b.db, b.q, middleware.TxOptions{}),
		middleware.Dedup(middleware.SQLDedup{}, time.Hour, func(job *queue.Job) string { return string(job.Payload) }),
	)}.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b.want(10, queue.StatusCompleted, jobs)
}
