package child

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/stats"
)

// WarmUp is how many jobs enqueue, and each goroutine of singles, writes before it is ready. It
// opens the connections and prepares the statements.
const WarmUp = 10

// enqueue writes Jobs jobs, Batch a call, from one goroutine.
func enqueue(ctx context.Context, s *self, p peer.Peer) (Figures, error) {
	if err := p.Enqueue(ctx, s.Jobs, WarmUp); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	from := time.Now()
	for first := 0; first < s.Jobs; first += s.Batch {
		if err := p.Enqueue(ctx, first, min(s.Batch, s.Jobs-first)); err != nil {
			return nil, err
		}
	}
	return Figures{"rate": float64(s.Jobs) / time.Since(from).Seconds()}, nil
}

// singles enqueues one job at a time from Goroutines goroutines for Duration.
func singles(ctx context.Context, s *self, p peer.Peer) (Figures, error) {
	until := func(more func() bool) ([]time.Duration, error) { return enqueueWhile(ctx, p, s.Goroutines, more) }

	var warm atomic.Int64
	if _, err := until(func() bool { return warm.Add(1) <= int64(WarmUp*s.Goroutines) }); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	from := time.Now()
	took, err := until(func() bool { return time.Since(from) < s.Duration })
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(from)
	return Figures{
		"rate": float64(len(took)) / elapsed.Seconds(),
		"jobs": float64(len(took)),
		"p50":  milliseconds(stats.Quantile(took, 0.5)),
		"p99":  milliseconds(stats.Quantile(took, 0.99)),
	}, nil
}

// enqueueWhile enqueues from n goroutines while more returns true. It returns how long the calls
// took.
func enqueueWhile(ctx context.Context, p peer.Peer, n int, more func() bool) ([]time.Duration, error) {
	group, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	var all []time.Duration
	for range n {
		group.Go(func() error {
			var took []time.Duration
			for more() {
				from := time.Now()
				if err := p.EnqueueOne(ctx, 0); err != nil {
					return err
				}
				took = append(took, time.Since(from))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			return nil
		})
	}
	err := group.Wait()
	return all, err
}
