package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgres/pgxlisten"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// BenchmarkTurns runs no-op jobs of 10,000 groups that take turns, without a limit. The jobs of a
// group are of one kind, or of three. An operation is one job.
func BenchmarkTurns(b *testing.B) {
	for _, kinds := range []int{1, 3} {
		b.Run(fmt.Sprintf("kinds=%d", kinds), func(b *testing.B) { benchmarkTurns(b, kinds) })
	}
}

func benchmarkTurns(b *testing.B, kinds int) {
	_, q := fresh(b, postgres.Options{})
	if err := q.SetRules(b.Context(), nil, queue.Rule{Share: 1}); err != nil {
		b.Fatal(err)
	}
	for left := b.N; left > 0; left -= 5000 {
		list := payloads(min(left, 5000))
		for i, j := range list {
			j.Group = fmt.Sprint((left + i) % 10_000)
			j.Kind = fmt.Sprint("kind", (left+i)/10_000%kinds)
		}
		enqueue(b, q, list...)
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
	if err := (engine.Worker{Backend: q, Handler: handler, Concurrency: 1000, Logger: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLimit runs jobs of 50 ms in 4 workers with a limit of 40 between them. It reports the
// share of the limit that was used. An operation is one job.
func BenchmarkLimit(b *testing.B) {
	const limit, length = 40, 50 * time.Millisecond
	_, q := fresh(b, postgres.Options{})
	if err := q.SetRules(b.Context(), nil, queue.Rule{Running: limit}); err != nil {
		b.Fatal(err)
	}
	enqueue(b, q, payloads(b.N)...)
	ctx, stop := context.WithCancel(b.Context())
	var done atomic.Int64
	handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
		time.Sleep(length)
		if done.Add(1) == int64(b.N) {
			stop()
		}
		return nil
	})
	b.ResetTimer()
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() {
			w := engine.Worker{Backend: q, Handler: handler, Concurrency: 40, Name: fmt.Sprint("w", i), Logger: slog.New(slog.DiscardHandler)}
			if err := w.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	workers.Wait()
	ideal := time.Duration(b.N) * length / limit
	b.ReportMetric(100*float64(ideal)/float64(b.Elapsed()), "%used")
}

// BenchmarkLimitedHead claims single jobs of a limited queue, behind due jobs of another kind or
// behind none. An operation is an enqueue, a claim and a Settle. It reports how long the claims
// took, and the first of all.
func BenchmarkLimitedHead(b *testing.B) {
	for _, c := range []struct {
		name, heads, group string
		rule               queue.Rule
	}{
		{"running", "NULL", "", queue.Rule{Running: 10}},
		{"group", "'acme'", "acme", queue.Rule{PerGroup: 10}},
		{"ungrouped", "'acme'", "", queue.Rule{PerGroup: 10}},
	} {
		for _, heads := range []int{0, 400_000} {
			b.Run(fmt.Sprintf("%s/heads=%d", c.name, heads), func(b *testing.B) {
				db, q := fresh(b, postgres.Options{})
				if err := q.SetRules(b.Context(), nil, c.rule); err != nil {
					b.Fatal(err)
				}
				exec(b, db, `INSERT INTO errand.jobs (kind, job_group, scheduled_at)
					SELECT 'foreign', `+c.heads+`, now() - interval '1 hour' FROM generate_series(1, $1::integer)`, heads)
				exec(b, db, `ANALYZE errand.jobs`)
				req := request(10)
				req.Kinds = []string{"test"}
				var took, first, longest time.Duration
				for b.Loop() {
					enqueue(b, q, &queue.Job{Kind: "test", Group: c.group})
					begun := time.Now()
					jobs, err := q.Claim(b.Context(), req)
					if err != nil || len(jobs) != 1 {
						b.Fatalf("claimed %d jobs, error %v", len(jobs), err)
					}
					d := time.Since(begun)
					if took += d; first == 0 {
						first = d
					} else {
						longest = max(longest, d)
					}
					settle(b, q, queue.Outcome{Job: jobs[0]})
				}
				b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/claim")
				b.ReportMetric(float64(first.Microseconds()), "µs/first")
				b.ReportMetric(float64(longest.Microseconds()), "µs/longest")
			})
		}
	}
}

// BenchmarkBesideLimited enqueues jobs one by one into a queue without rules, while four workers of
// both queues run no-op jobs of a limited one. An operation is one job of the limited queue. It
// reports how long after Enqueue half of the jobs without rules start, beside the limited queue and
// alone.
func BenchmarkBesideLimited(b *testing.B) {
	for _, order := range [][]string{{"free", "limited"}, {"limited", "free"}} {
		b.Run("first="+order[0], func(b *testing.B) {
			_, q := fresh(b, postgres.Options{Listen: pgxlisten.Listen})
			if err := q.SetRules(b.Context(), nil, queue.Rule{Queue: "limited", Running: 10_000}); err != nil {
				b.Fatal(err)
			}
			alone := benchmarkBeside(b, q, order, 0)
			for left := b.N; left > 0; left -= 5000 {
				list := payloads(min(left, 5000))
				for _, j := range list {
					j.Queue = "limited"
				}
				enqueue(b, q, list...)
			}
			b.ResetTimer()
			b.StartTimer()
			beside := benchmarkBeside(b, q, order, b.N)
			b.ReportMetric(float64(alone.Microseconds()), "µs/alone")
			b.ReportMetric(float64(beside.Microseconds()), "µs/beside")
		})
	}
}

// benchmarkBeside returns the median time until a job of the queue free starts, while so many jobs
// of the queue limited run.
func benchmarkBeside(b *testing.B, q *postgres.Backend, queues []string, limited int) time.Duration {
	ctx, stop := context.WithCancel(b.Context())
	var left atomic.Int64
	left.Store(int64(limited))
	var mu sync.Mutex
	var took []time.Duration
	handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		if job.Queue == "limited" {
			left.Add(-1)
			return nil
		}
		sent, err := time.Parse(time.RFC3339Nano, job.Headers["sent"])
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(sent))
		return err
	})
	var running sync.WaitGroup
	for i := range 4 {
		running.Go(func() {
			w := engine.Worker{
				Backend: q, Handler: handler, Queues: queues, Concurrency: 20, Name: fmt.Sprint("w", i),
				Logger: slog.New(slog.DiscardHandler), Poll: time.Second,
			}
			if err := w.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	for n := 0; left.Load() > 0 || limited == 0 && n < 50; n++ {
		enqueue(b, q, &queue.Job{Queue: "free", Kind: "k", Headers: map[string]string{"sent": time.Now().Format(time.RFC3339Nano)}})
		time.Sleep(10 * time.Millisecond)
	}
	b.StopTimer()
	time.Sleep(100 * time.Millisecond)
	stop()
	running.Wait()
	slices.Sort(took)
	return took[len(took)/2]
}
