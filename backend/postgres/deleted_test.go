package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// TestDeletedJobs: a pending job that a program deletes with SQL never starts, and the context of a
// running one ends at the next heartbeat.
func TestDeletedJobs(t *testing.T) {
	t.Parallel()
	const remove = `DELETE FROM errand.jobs WHERE id = $1 AND status IN ('pending', 'running')`
	db, q := fresh(t, postgres.Options{})
	running, pending := &queue.Job{Kind: "running"}, &queue.Job{Kind: "pending"}
	enqueue(t, q, running, pending)
	started, ended := make(chan struct{}), make(chan error, 1)
	handler := queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		if job.Kind == pending.Kind {
			t.Error("the pending job started although it was deleted")
			return nil
		}
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		stopped <- engine.Worker{Backend: q, Handler: handler, Concurrency: 1, Lease: time.Second, Poll: 10 * time.Millisecond}.Run(ctx)
	}()
	<-started
	exec(t, db, remove, running.ID)
	exec(t, db, remove, pending.ID)
	select {
	case err := <-ended:
		if !errors.Is(err, queue.ErrLost) {
			t.Errorf("the handler's context ended with %v, want ErrLost", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the handler's context never ended")
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := value[int](t, db, `SELECT count(*) FROM errand.jobs`); n != 0 {
		t.Errorf("%d jobs are left, want none", n)
	}
}
