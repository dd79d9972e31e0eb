package child

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/errandhq/errand/lab/bench/internal/peer"
)

// takes claims and settles one job at a time from Goroutines goroutines for Duration, or until no
// job is left.
func takes(ctx context.Context, s *self, p peer.Peer) (Figures, error) {
	taker, ok := p.(peer.Taker)
	if !ok {
		return nil, fmt.Errorf("%s: its jobs cannot be claimed one by one", s.System)
	}
	var warm atomic.Int64
	isWarm := func() bool { return warm.Add(1) > int64(WarmUp*s.Goroutines) }
	if _, err := takeUntil(ctx, taker, s.Goroutines, isWarm); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	from := time.Now()
	n, err := takeUntil(ctx, taker, s.Goroutines, func() bool { return time.Since(from) >= s.Duration })
	return Figures{"rate": float64(n) / time.Since(from).Seconds(), "jobs": float64(n)}, err
}

// takeUntil takes jobs from n goroutines until isDone returns true or none is left. It returns how
// many.
func takeUntil(ctx context.Context, p peer.Taker, n int, isDone func() bool) (int64, error) {
	var taken atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range n {
		group.Go(func() error {
			for !isDone() {
				ok, err := p.Take(ctx)
				if !ok || err != nil {
					return err
				}
				taken.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	return taken.Load(), err
}
