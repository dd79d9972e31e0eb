package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// TestOnDead: a worker calls OnDead for a job whose last attempt has failed, for one whose
// payload does not fit, and for one whose worker has crashed in its last attempt. It gets the error
// that is stored.
func TestOnDead(t *testing.T) {
	for _, w := range ways[:2] {
		t.Run(w.name, func(t *testing.T) {
			db, listen := w.open(t, postgrestest.DSN(t))
			q := backend(t, db, postgres.Options{Listen: listen})
			ids := make(map[string]int64)
			for _, kind := range []string{"crashed", "crashed before", "failed", "misfit", "panicked", "fine"} {
				job := &queue.Job{Kind: kind, MaxAttempts: 1, Payload: []byte(`"secret"`)}
				enqueue(t, q, job)
				ids[kind] = job.ID
			}
			exec(t, db, `UPDATE errand.jobs SET status = 'running', attempts = 1, locked_by = 'crasher', fence = 7,
				max_attempts = CASE kind WHEN 'crashed' THEN 1 ELSE 2 END,
				locked_at = now() - interval '1 hour', locked_until = now() - interval '30 minutes' WHERE kind LIKE 'crashed%'`)
			var mu sync.Mutex
			called := make(map[string]error)
			calls := 0
			mux := queue.NewMux()
			queue.NewKind[int]("misfit").Handle(mux, func(context.Context, *queue.Job, int) error { return nil })
			mux.Handle("failed", queue.HandlerFunc(func(context.Context, *queue.Job) error { return errors.New("no such user") }))
			mux.Handle("panicked", queue.HandlerFunc(func(context.Context, *queue.Job) error { panic("boom") }))
			for _, kind := range []string{"crashed", "crashed before", "fine"} {
				mux.Handle(kind, queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- engine.Worker{Backend: q, Handler: mux, Lease: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
					OnDead: func(_ context.Context, job *queue.Job, err error) {
						mu.Lock()
						defer mu.Unlock()
						called[job.Kind] = err
						calls++
					}}.Run(ctx)
			}()
			eventually(t, "all jobs have ended", func() bool {
				return value[int](t, db, "SELECT count(*) FROM errand.jobs WHERE status IN ('pending', 'running')") == 0
			})
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if calls != 4 || len(called) != 4 || !errors.Is(called["crashed"], queue.ErrLost) {
				t.Errorf("OnDead: got %d calls with %v, want one for each of four kinds, and ErrLost for crashed", calls, called)
			}
			for kind, err := range called {
				stored := value[string](t, db, "SELECT status || ' ' || last_error FROM errand.jobs WHERE id = $1", ids[kind])
				if want := fmt.Sprint("dead ", err); stored != want {
					t.Errorf("%s: got %q in the table, want %q", kind, stored, want)
				}
			}
		})
	}
}
