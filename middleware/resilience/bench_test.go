package resilience_test

import (
	"testing"

	"github.com/errandhq/errand/middleware/resilience"
	"github.com/errandhq/errand/queue"
)

// BenchmarkCircuitBreaker is what a closed circuit adds to each run.
func BenchmarkCircuitBreaker(b *testing.B) {
	bench(b, resilience.CircuitBreaker(resilience.CircuitBreakerOptions{OnChange: func(string, resilience.State, resilience.State) {}}))
}

// BenchmarkBulkhead is what a bulkhead with room adds to each run.
func BenchmarkBulkhead(b *testing.B) {
	bench(b, resilience.Bulkhead(1000, resilience.BulkheadOptions{}))
}

// bench runs the middleware around a handler that does nothing, in one goroutine and in several.
func bench(b *testing.B, m queue.Middleware) {
	h, ctx := m(returns(nil)), b.Context()
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		job := newJob("mail")
		for b.Loop() {
			_ = h.HandleJob(ctx, job)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			job := newJob("mail")
			for pb.Next() {
				_ = h.HandleJob(ctx, job)
			}
		})
	})
}
