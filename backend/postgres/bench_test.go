package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// BenchmarkEnqueue writes jobs through the backend's own handle, n a statement.
// An operation is one job.
func BenchmarkEnqueue(b *testing.B) {
	for _, n := range []int{1, 100, 5000} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			_, q := fresh(b, postgres.Options{})
			list := payloads(n)
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				if err := q.Enqueue(b.Context(), nil, list[:min(n, b.N-i)]...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEnqueueKeyed writes jobs with keys: new ones, ones whose key a pending job has, and ones
// that replace it. An operation is one job.
func BenchmarkEnqueueKeyed(b *testing.B) {
	for _, c := range []struct {
		name        string
		onDuplicate queue.OnDuplicate
		repeated    bool
	}{
		{"keep/new", queue.Keep, false}, {"keep/pending", queue.Keep, true},
		{"replace/new", queue.Replace, false}, {"replace/pending", queue.Replace, true},
	} {
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", c.name, n), func(b *testing.B) {
				_, q := fresh(b, postgres.Options{})
				list := payloads(n)
				b.ReportAllocs()
				for i := 0; i < b.N; i += n {
					for k, j := range list {
						j.OnDuplicate, j.Key = c.onDuplicate, fmt.Sprint("key", k)
						if !c.repeated {
							j.Key = fmt.Sprint("key", i+k)
						}
					}
					if err := q.Enqueue(b.Context(), nil, list[:min(n, b.N-i)]...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkDrain runs no-op jobs that were enqueued beforehand through a worker;
// pinned, while a transaction keeps the server from cleaning up behind it. An
// operation is one job.
func BenchmarkDrain(b *testing.B) {
	b.Run("free", func(b *testing.B) { drain(b, false) })
	b.Run("pinned", func(b *testing.B) { drain(b, true) })
}

func drain(b *testing.B, pinned bool) {
	db, q := fresh(b, postgres.Options{})
	if pinned {
		defer pin(b, db)()
	}
	for left := b.N; left > 0; left -= 5000 {
		enqueue(b, q, payloads(min(left, 5000))...)
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
	b.ReportAllocs()
	b.ResetTimer()
	if err := (engine.Worker{Backend: q, Handler: handler, Concurrency: 100, Logger: slog.New(slog.DiscardHandler)}).Run(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClaimSettle is the pair of statements without the worker around them.
// An operation is one job.
func BenchmarkClaimSettle(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			_, q := fresh(b, postgres.Options{})
			for left := b.N; left > 0; left -= 5000 {
				enqueue(b, q, payloads(min(left, 5000))...)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += n {
				held := claim(b, q, n)
				outcomes := make([]queue.Outcome, len(held))
				for i, j := range held {
					outcomes[i].Job = j
				}
				if _, err := q.Settle(b.Context(), nil, outcomes...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func payloads(n int) []*queue.Job {
	list := jobs(n)
	for i, j := range list {
		j.Payload = fmt.Appendf(nil, `{"order": %d, "to": "alice@example.com"}`, i)
	}
	return list
}
