package middleware_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
)

// TestTxCommits: the effect, the settling and the follow-up job appear together.
func TestTxCommits(t *testing.T) {
	b := openBank(t)
	b.enqueue(1)
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		if err := b.q.Enqueue(ctx, tx, receipt.New(payment{})); err != nil {
			return err
		}
		if err := handle(ctx, tx, job); err != nil {
			return err
		}
		b.want(0, queue.StatusRunning, 1)
		b.want(0, queue.StatusPending, 0) // the receipt is not there yet
		return nil
	}), middleware.Tx(b.db, b.q, middleware.TxOptions{}))
	if err := h.HandleJob(t.Context(), b.claimOne()); !errors.Is(err, queue.ErrSettled) {
		t.Fatalf("got %v, want queue.ErrSettled", err)
	}
	b.want(1, queue.StatusCompleted, 1)
	b.want(1, queue.StatusPending, 1)
}

// TestTxRollsBack: whatever goes wrong, nothing is written and the error is passed on.
func TestTxRollsBack(t *testing.T) {
	declined := errors.New("declined")
	for _, c := range []struct {
		name string
		err  error
		is   error
	}{
		{"an error", declined, declined},
		{"a discard", queue.Discard(declined), declined},
		{"a snooze", queue.Snooze(time.Hour), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := openBank(t)
			b.enqueue(1)
			h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
				return errors.Join(b.q.Enqueue(ctx, tx, receipt.New(payment{})), handle(ctx, tx, job), c.err)
			}), middleware.Tx(b.db, b.q, middleware.TxOptions{}))
			err := h.HandleJob(t.Context(), b.claimOne())
			if err == nil || errors.Is(err, queue.ErrSettled) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got error %v, want %v", err, c.err)
			}
			b.want(0, queue.StatusRunning, 1)
			b.want(0, queue.StatusPending, 0)
		})
	}
}

// TestTxLost: a worker that no longer holds the job writes nothing, and who holds it does.
func TestTxLost(t *testing.T) {
	b := openBank(t)
	b.enqueue(1)
	late := b.claimFor(time.Millisecond)
	b.reclaimed()
	current := b.claimOne()
	h := queue.Chain(handler(handle), middleware.Tx(b.db, b.q, middleware.TxOptions{}))
	if err := h.HandleJob(t.Context(), late); !errors.Is(err, queue.ErrLost) {
		t.Errorf("the late worker: got %v, want ErrLost", err)
	}
	b.want(0, queue.StatusRunning, 1)
	if err := h.HandleJob(t.Context(), current); !errors.Is(err, queue.ErrSettled) {
		t.Errorf("the current worker: got %v, want ErrSettled", err)
	}
	b.want(1, queue.StatusCompleted, 1)
}

// TestTxSettleFirst: then a lost job's handler does not even start, and a job that is held cannot
// be lost while its handler runs.
func TestTxSettleFirst(t *testing.T) {
	b := openBank(t)
	b.enqueue(1)
	late := b.claimFor(time.Millisecond)
	b.reclaimed()
	current := b.claimFor(time.Millisecond)
	started := 0
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		started++
		time.Sleep(5 * time.Millisecond) // longer than the lease, on the server
		if jobs, err := b.q.Reclaim(ctx, 1); err != nil || len(jobs) != 0 {
			t.Errorf("reclaimed %d jobs (%v) whose transaction is open, want 0", len(jobs), err)
		}
		return handle(ctx, tx, job)
	}), middleware.Tx(b.db, b.q, middleware.TxOptions{SettleFirst: true}))
	if err := h.HandleJob(t.Context(), late); !errors.Is(err, queue.ErrLost) || started != 0 {
		t.Errorf("the late worker: got %v after %d starts, want ErrLost after 0", err, started)
	}
	if err := h.HandleJob(t.Context(), current); !errors.Is(err, queue.ErrSettled) {
		t.Errorf("the current worker: got %v, want ErrSettled", err)
	}
	b.want(1, queue.StatusCompleted, 1)
}

// TestTxStricterIsolation: a heartbeat during the transaction, with either way of settling.
func TestTxStricterIsolation(t *testing.T) {
	for _, c := range []struct {
		name  string
		first bool
	}{{"settled last", false}, {"settled first", true}} {
		t.Run(c.name, func(t *testing.T) {
			b := openBank(t)
			b.enqueue(1)
			job := b.claimOne()
			h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
				if err := handle(ctx, tx, job); err != nil {
					return err
				}
				lost, _, err := b.q.Extend(ctx, time.Minute, job)
				if len(lost) != 0 {
					t.Error("the heartbeat says that the job is lost")
				}
				return err
			}), middleware.Tx(b.db, b.q, middleware.TxOptions{
				SQL: &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, SettleFirst: c.first}))
			err := h.HandleJob(t.Context(), job)
			if c.first {
				if !errors.Is(err, queue.ErrSettled) {
					t.Errorf("got %v, want ErrSettled", err)
				}
				b.want(1, queue.StatusCompleted, 1)
				return
			}
			if err == nil || !strings.Contains(err.Error(), "40001") {
				t.Errorf("got %v, want a serialization failure", err)
			}
			b.want(0, queue.StatusRunning, 1)
		})
	}
}

// TestTxEndsWithItsContext: a handler that comes too late has written nothing, though it says nil.
func TestTxEndsWithItsContext(t *testing.T) {
	b := openBank(t)
	b.enqueue(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		err := handle(ctx, tx, job)
		cancel()
		return err
	}), middleware.Tx(b.db, b.q, middleware.TxOptions{}))
	if err := h.HandleJob(ctx, b.claimOne()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	b.want(0, queue.StatusRunning, 1)
}

// TestTxCancelled: if somebody cancels the job and its handler returns nil, Tx rolls back, and the
// error says that the job was cancelled.
func TestTxCancelled(t *testing.T) {
	b := openBank(t)
	b.enqueue(1)
	ctx, cancel := context.WithCancelCause(t.Context())
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		err := handle(ctx, tx, job)
		cancel(queue.ErrCancelled) // as the worker does
		return err
	}), middleware.Tx(b.db, b.q, middleware.TxOptions{}))
	if err := h.HandleJob(ctx, b.claimOne()); !errors.Is(err, queue.ErrCancelled) || errors.Is(err, queue.ErrSettled) {
		t.Errorf("got %v, want queue.ErrCancelled", err)
	}
	b.want(0, queue.StatusRunning, 1)
}

// TestTxSettledByHandler: what the handler has settled in the transaction is committed as it said.
func TestTxSettledByHandler(t *testing.T) {
	b := openBank(t)
	b.enqueue(1)
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		if err := handle(ctx, tx, job); err != nil {
			return err
		}
		o := queue.Outcome{Job: job, Action: queue.Dead, Err: errors.New("paid already")}
		if _, err := b.q.Settle(ctx, tx, o); err != nil {
			return err
		}
		return queue.ErrSettled
	}), middleware.Tx(b.db, b.q, middleware.TxOptions{}))
	if err := h.HandleJob(t.Context(), b.claimOne()); !errors.Is(err, queue.ErrSettled) {
		t.Errorf("got %v, want ErrSettled", err)
	}
	b.want(1, queue.StatusDead, 1)
}

// TestTxOncePerJob: workers whose handlers fail, panic and lose their jobs, and in the end one
// effect for each job.
func TestTxOncePerJob(t *testing.T) {
	extent.Long(t)
	const jobs = 500
	b := openBank(t)
	b.db.SetMaxOpenConns(40)
	b.enqueue(jobs)
	b.exec(`UPDATE errand.jobs SET max_attempts = 1000`)
	h := queue.Chain(handler(func(ctx context.Context, tx *sql.Tx, job *queue.Job) error {
		if err := handle(ctx, tx, job); err != nil {
			return err
		}
		switch rand.IntN(20) {
		case 0:
			return queue.RetryAfter(0, errors.New("declined"))
		case 1:
			panic(queue.RetryAfter(0, errors.New("panicked")))
		case 2: // another worker takes the job
			_, err := b.db.ExecContext(ctx, `UPDATE errand.jobs SET status = 'pending', fence = nextval('errand.fences'), locked_by = NULL WHERE id = $1`, job.ID)
			return err
		}
		return nil
	}), middleware.Tx(b.db, b.q, middleware.TxOptions{}))

	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			if err := (engine.Worker{Backend: b.q, Handler: h, Poll: 10 * time.Millisecond, Logger: quiet}).Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for b.count(`SELECT count(*) FROM errand.jobs WHERE status <> 'completed'`) > 0 && !t.Failed() {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	workers.Wait()
	b.want(jobs, queue.StatusCompleted, jobs)
	if got := b.count(`SELECT count(DISTINCT job) FROM payments`); got != jobs {
		t.Errorf("jobs with an effect: got %d, want %d", got, jobs)
	}
}

// TestTxMisuse: what cannot work is said at once.
func TestTxMisuse(t *testing.T) {
	wantPanic(t, "db is nil", func() { middleware.Tx(nil, nil, middleware.TxOptions{}) })
	wantPanic(t, "q is nil", func() { middleware.Tx(new(sql.DB), nil, middleware.TxOptions{}) })
	err := handler(handle).HandleJob(t.Context(), &queue.Job{Kind: pay.Name, Payload: []byte(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "needs Tx outside") {
		t.Errorf("InTx without Tx: got %v", err)
	}
	if _, ok := middleware.TxFrom(t.Context()); ok {
		t.Error("TxFrom finds a transaction where there is none")
	}
}
