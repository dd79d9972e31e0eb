package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/sqlite"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// TestCancelElsewhere: a process learns within moments that another process, or a transaction of
// the caller's, has cancelled a running job.
func TestCancelElsewhere(t *testing.T) {
	onEach(t, func(t *testing.T, driver string) {
		db := open(t, driver, dsn(t))
		migrate(t, db, sqlite.Options{})
		q := backend(t, db, sqlite.Options{})
		began, ended := make(chan struct{}), make(chan time.Time, 1)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- engine.Worker{Backend: q, Handler: queue.HandlerFunc(func(ctx context.Context, _ *queue.Job) error {
				close(began)
				<-ctx.Done()
				ended <- time.Now()
				return context.Cause(ctx)
			})}.Run(ctx)
		}()
		job := &queue.Job{Kind: "test"}
		if err := q.Enqueue(t.Context(), nil, job); err != nil {
			t.Fatal(err)
		}
		<-began
		time.Sleep(2 * 40 * time.Millisecond) // the process has read the count
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := q.Cancel(t.Context(), tx, queue.Selection{IDs: []int64{job.ID}}); n != 1 || err != nil {
			t.Fatalf("Cancel: %d, %v", n, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		committed := time.Now()
		if took := (<-ended).Sub(committed); took > 5*time.Second {
			t.Errorf("from the commit to the context's end: %v, want moments: a heartbeat comes each 10 s", took)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if r, _, err := q.Job(t.Context(), job.ID); err != nil || r.Status != queue.StatusCancelled {
			t.Errorf("got %q, %v; want the job cancelled", r.Status, err)
		}
	})
}
