package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// silent is a queue whose workers report nothing.
type silent struct {
	queue.Consumer
	driver.Waiter
	driver.Reclaimer
	driver.Canceller
	driver.Pauser
	driver.Scheduler
	driver.ResultKeeper
}

// BenchmarkDrainReported is BenchmarkDrain of jobs of four kinds with a worker that reports itself
// and counts its runs, and with one that does not. An operation is one job.
func BenchmarkDrainReported(b *testing.B) {
	for _, reports := range []bool{true, false} {
		b.Run(fmt.Sprintf("reports=%v", reports), func(b *testing.B) {
			_, q := fresh(b, postgres.Options{})
			list := payloads(5000)
			for i, j := range list {
				j.Kind = fmt.Sprint("kind", i%4)
			}
			for left := b.N; left > 0; left -= 5000 {
				enqueue(b, q, list[:min(left, 5000)]...)
			}
			var backend queue.Consumer = q
			if !reports {
				backend = silent{q, q, q, q, q, q, q}
			}
			ctx, stop := context.WithCancel(b.Context())
			var left atomic.Int64
			left.Store(int64(b.N))
			handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
				if left.Add(-1) == 0 {
					stop()
				}
				return nil
			})
			b.ResetTimer()
			w := engine.Worker{Backend: backend, Handler: handler, Concurrency: 100, Logger: slog.New(slog.DiscardHandler)}
			if err := w.Run(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkReport measures one report of a worker that has run jobs of so many kinds since the last
// one.
func BenchmarkReport(b *testing.B) {
	for _, kinds := range []int{0, 10, 40, 500} {
		b.Run(fmt.Sprintf("kinds=%d", kinds), func(b *testing.B) {
			_, q := fresh(b, postgres.Options{})
			r := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "w", Queues: []string{"default"}, Concurrency: 100}}
			for i := range kinds {
				r.Stats = append(r.Stats, driver.MinuteStats{Queue: "default", Kind: fmt.Sprint("kind", i), Stats: queue.Stats{
					Done: 1000, Ran: time.Minute, Waited: time.Hour,
					RunTimes: queue.Histogram{100, 800, 100}, WaitTimes: queue.Histogram{0, 0, 0, 0, 0, 0, 300, 300, 300, 100},
				}})
			}
			for b.Loop() {
				if err := q.ReportWorkers(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRuns lists what workers run, beside 20,000 running jobs.
func BenchmarkRuns(b *testing.B) {
	_, q := fresh(b, postgres.Options{})
	for i := range 20 {
		enqueue(b, q, payloads(1000)...)
		req := queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1000, Lease: time.Hour, Worker: fmt.Sprint("w", i)}
		if jobs, err := q.Claim(b.Context(), req); err != nil || len(jobs) != 1000 {
			b.Fatalf("claimed %d jobs, error %v", len(jobs), err)
		}
	}
	for b.Loop() {
		if runs, err := q.Runs(b.Context(), 10); err != nil || len(runs) != 200 {
			b.Fatalf("got %d runs, error %v; want 200", len(runs), err)
		}
	}
}

// BenchmarkStats reads the statistics of a day with 40 kinds: the points of a chart, and the
// percentiles of the last hour.
func BenchmarkStats(b *testing.B) {
	db, q := fresh(b, postgres.Options{})
	exec(b, db, `INSERT INTO errand.stats
		SELECT date_trunc('minute', now()) - m * interval '1 minute', 'default', 'kind' || k, 1000, 10, 1, 0, 60000000, 90000000,
			'{100,800,100}', '{0,0,0,0,0,0,300,300,300,100}'
		FROM generate_series(0, 48 * 60 - 1) m, generate_series(1, 40) k`)
	exec(b, db, `VACUUM ANALYZE errand.stats`)
	b.Logf("rows of two days: %d bytes each, with their index", value[int64](b, db, `SELECT pg_total_relation_size('errand.stats') / (40 * 48 * 60)`))
	for name, f := range map[string]queue.StatsFilter{
		"chart":       {From: time.Now().Add(-24 * time.Hour), Step: time.Minute},
		"percentiles": {From: time.Now().Add(-time.Hour), ByKind: true, Times: true},
		"kind":        {From: time.Now().Add(-24 * time.Hour), Kind: "kind7", Step: 10 * time.Minute, Times: true},
		"day":         {From: time.Now().Add(-24 * time.Hour), ByKind: true, Times: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if all, err := q.Stats(b.Context(), f); err != nil || len(all) == 0 {
					b.Fatalf("got %d records, error %v", len(all), err)
				}
			}
		})
	}
}
