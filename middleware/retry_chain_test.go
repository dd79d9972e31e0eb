package middleware_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// inTx is a handler that gets the transaction of Tx.
func inTx(fn func(ctx context.Context, tx *sql.Tx) error) queue.Handler {
	kind := queue.Kind[any]{Name: codecKind.Name}
	mux := queue.NewMux()
	kind.Handle(mux, middleware.InTx(func(ctx context.Context, tx *sql.Tx, _ *queue.Job, _ any) error { return fn(ctx, tx) }))
	return mux
}

// withJob is middleware that passes on a copy of the job, changed by change.
func withJob(change func(*queue.Job)) queue.Middleware {
	return func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			changed := *job
			change(&changed)
			return next.HandleJob(ctx, &changed)
		})
	}
}

// TestRetryChainErrors: a job is retried if a middleware has made its error, although no rule of
// Retry matches. The handler's own errors are judged, of whatever sort. Every job is encrypted.
func TestRetryChainErrors(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	stock := openStock()
	defer stock.Close()
	nowhere, err := sql.Open("pgx", "postgres://127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	nowhereTx := middleware.Tx(nowhere, q, middleware.TxOptions{})
	tx := middleware.Tx(stock, q, middleware.TxOptions{})
	txFirst := middleware.Tx(stock, q, middleware.TxOptions{SettleFirst: true})
	keyA, keyB, compress := newCodecEncrypt(t, "a", "a"), newCodecEncrypt(t, "b", "b"), middleware.Compress{Min: 1}
	everyKey := func(*queue.Job) string { return "k" }
	sqlDedup := middleware.Dedup(middleware.SQLDedup{SQLite: true}, time.Hour, everyKey)
	memoryDedup := middleware.Dedup(&middleware.MemoryDedup{}, time.Hour, everyKey)

	wantOrder := queue.NewMux()
	codecKind.Handle(wantOrder, func(context.Context, *queue.Job, codecOrder) error { return nil })
	rollBack := inTx(func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() })
	var end context.CancelFunc
	endable := func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			ctx, end = context.WithCancel(ctx)
			defer end()
			return next.HandleJob(ctx, job)
		})
	}
	late := inTx(func(context.Context, *sql.Tx) error { end(); return nil })
	broken := inTx(func(context.Context, *sql.Tx) error { return sql.ErrConnDone })
	opens := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error { _, err := keyB.Open(job); return err })

	for _, c := range []struct {
		name  string
		h     queue.Handler
		chain []queue.Middleware
		want  queue.Status
	}{
		{"Tx cannot begin", rollBack, []queue.Middleware{nowhereTx}, queue.StatusPending},
		{"Tx has no time to begin", rollBack, []queue.Middleware{middleware.Timeout(1), tx}, queue.StatusPending},
		{"the job is lost", broken, []queue.Middleware{withJob(func(job *queue.Job) { job.Fence++ }), txFirst}, queue.StatusPending},
		{"InTx without Tx", rollBack, nil, queue.StatusPending},
		{"Encrypt without the key", wantOrder, []queue.Middleware{keyB.Handler}, queue.StatusPending},
		{"Compress in place of Encrypt", wantOrder, []queue.Middleware{compress.Handler}, queue.StatusPending},
		{"no Encrypt", wantOrder, nil, queue.StatusPending},
		{"SQLDedup without its table", rollBack, []queue.Middleware{tx, sqlDedup}, queue.StatusPending},
		{"SQLDedup without Tx", rollBack, []queue.Middleware{sqlDedup}, queue.StatusPending},
		{"MemoryDedup in Tx", rollBack, []queue.Middleware{tx, memoryDedup}, queue.StatusPending},

		{"the handler's connection", broken, []queue.Middleware{tx}, queue.StatusDead},
		{"the handler within Dedup", basicReturns(errBasic), []queue.Middleware{memoryDedup}, queue.StatusDead},
		{"the handler outlasts its time", late, []queue.Middleware{endable, tx}, queue.StatusDead},
		{"the handler opens a job", opens, nil, queue.StatusDead},
		{"a payload that was changed", wantOrder, []queue.Middleware{
			withJob(func(job *queue.Job) { job.Payload = []byte(`"AAAA"`) }), keyA.Handler,
		}, queue.StatusDead},
	} {
		for order, outer := range map[string][]queue.Middleware{
			"Retry":             {middleware.Retry()},
			"Retry and Backoff": {middleware.Retry(), middleware.Log(quiet), middleware.Backoff(middleware.Fixed{})},
		} {
			job := codecKind.New(newCodecOrder(10, 1))
			if err := queue.ChainEnqueuer(q, keyA.Enqueuer).Enqueue(t.Context(), nil, job); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Drain(t.Context(), queue.Chain(c.h, append(outer, c.chain...)...)); err != nil {
				t.Fatal(err)
			}
			r, _, err := q.Job(t.Context(), job.ID)
			if err != nil || r.Status != c.want || r.Attempt != 1 {
				t.Errorf("%s, %s: got %s after attempt %d with %q (%v), want %s", c.name, order, r.Status, r.Attempt, r.LastError, err, c.want)
			}
		}
	}
}

// TestRetryAndTx: a job whose transaction Tx could not end is retried although no rule of Retry
// matches. It is dead if the database refuses what the handler has written.
func TestRetryAndTx(t *testing.T) {
	b := openBank(t)
	cut := handler(func(_ context.Context, tx *sql.Tx, _ *queue.Job) error { return tx.Rollback() })
	sets := handler(func(ctx context.Context, _ *sql.Tx, _ *queue.Job) error { return queue.SetOutput(ctx, 1) })
	passesOver := handler(func(ctx context.Context, tx *sql.Tx, _ *queue.Job) error {
		_, _ = tx.ExecContext(ctx, `SELECT 1/0`)
		return nil
	})
	deferred := handler(func(ctx context.Context, tx *sql.Tx, _ *queue.Job) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE once (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO once VALUES (1), (1)`)
		return err
	})
	for part, c := range map[string]struct {
		h      queue.Handler
		o      middleware.TxOptions
		action queue.OutcomeAction
	}{
		"Tx: settle:": {cut, middleware.TxOptions{}, queue.Retry},
		"Tx: commit:": {cut, middleware.TxOptions{SettleFirst: true}, queue.Retry},
		"SetOutput":   {sets, middleware.TxOptions{SettleFirst: true}, queue.Retry},
		"25P02":       {passesOver, middleware.TxOptions{}, queue.Dead},
		"23505":       {deferred, middleware.TxOptions{}, queue.Dead},
	} {
		b.enqueue(1)
		h := queue.Chain(c.h, middleware.Retry(), middleware.Tx(b.db, b.q, c.o))
		codecWantErr(t, h.HandleJob(queue.WithResults(t.Context()), b.claimOne()), part, c.action)
	}
}
