package postgres_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/queue"
)

// BenchmarkCancelRunning cancels jobs that run, one after the other, and reports how long it takes
// from the call of Cancel until the handler's context ends, in milliseconds. An operation is one
// job.
func BenchmarkCancelRunning(b *testing.B) {
	w := ways[0]
	db, listen := w.open(b, postgrestest.DSN(b))
	q := backend(b, db, postgres.Options{Listen: listen})
	began, ended := make(chan int64), make(chan time.Time)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() {
		done <- queue.Worker{Backend: q, Logger: slog.New(slog.DiscardHandler), Handler: queue.HandlerFunc(
			func(ctx context.Context, job *queue.Job) error {
				began <- job.ID
				<-ctx.Done()
				ended <- time.Now()
				return context.Cause(ctx)
			})}.Run(ctx)
	}()
	var took []time.Duration
	for b.Loop() {
		enqueue(b, q, &queue.Job{Kind: "test"})
		id := <-began
		start := time.Now()
		if n, err := q.Cancel(b.Context(), nil, queue.Which{IDs: []int64{id}}); n != 1 || err != nil {
			b.Fatalf("Cancel: %d, %v", n, err)
		}
		took = append(took, (<-ended).Sub(start))
	}
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
}
