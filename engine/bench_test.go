package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// stub is a backend that costs nothing: its jobs exist already. It calls drained when all are
// settled. A worker's claim loop and settle loop are one goroutine each, so it needs no lock.
type stub struct {
	jobs    []*queue.Job
	settled int
	all     int
	drained func()
}

func newStub(n int, drained func()) *stub {
	backing := make([]queue.Job, n)
	jobs := make([]*queue.Job, n)
	for i := range jobs {
		backing[i] = queue.Job{ID: int64(i + 1), Kind: work.Name, Queue: queue.DefaultQueue, Attempt: 1, MaxAttempts: 5}
		jobs[i] = &backing[i]
	}
	return &stub{jobs: jobs, all: n, drained: drained}
}

func (s *stub) Claim(_ context.Context, req queue.ClaimRequest) (jobs []*queue.Job, err error) {
	n := min(req.Limit, len(s.jobs))
	jobs, s.jobs = s.jobs[:n:n], s.jobs[n:]
	return jobs, nil
}

func (s *stub) Extend(context.Context, time.Duration, ...*queue.Job) (lost, asked []*queue.Job, err error) {
	return nil, nil, nil
}

func (s *stub) Settle(_ context.Context, _ queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	if s.settled += len(outcomes); s.settled == s.all {
		s.drained()
	}
	return nil, nil
}

// counting is a stub that takes reports of workers, so that they count their runs.
type counting struct {
	*stub
	driver.Fleet
}

func (counting) ReportWorkers(context.Context, ...driver.WorkerReport) error { return nil }

func (counting) Stats(context.Context, queue.StatsFilter) ([]queue.StatsRecord, error) {
	return nil, nil
}

// BenchmarkWorker measures the engine's own cost of a job, from its claim to its settling.
func BenchmarkWorker(b *testing.B) {
	for _, concurrency := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("concurrency=%d", concurrency), func(b *testing.B) {
			benchWorker(b, concurrency, func(s *stub) queue.Consumer { return s })
		})
	}
}

// BenchmarkWorkerCounting is BenchmarkWorker with a backend that is a Statistician.
func BenchmarkWorkerCounting(b *testing.B) {
	benchWorker(b, 100, func(s *stub) queue.Consumer { return counting{stub: s} })
}

func benchWorker(b *testing.B, concurrency int, backend func(*stub) queue.Consumer) {
	mux := queue.NewMux()
	mux.Handle(work.Name, queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }))
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	w := engine.Worker{Backend: backend(newStub(b.N, stop)), Handler: mux, Concurrency: concurrency}
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
