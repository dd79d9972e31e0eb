package main

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// warmUp is how many jobs enqueue writes, and each goroutine of singles, before they are ready.
const warmUp = 10

// enqueue writes Jobs jobs, Batch a call, from one goroutine.
func (q *queue) enqueue(ctx context.Context, c *child) (map[string]float64, error) {
	client, err := q.client()
	if err != nil {
		return nil, err
	}
	if err := insert(ctx, client, q.Jobs, warmUp); err != nil {
		return nil, err
	}
	if ctx, err = c.begin(ctx); err != nil {
		return nil, err
	}
	from := time.Now()
	for first := 0; first < q.Jobs; first += q.Batch {
		if err := insert(ctx, client, first, min(q.Batch, q.Jobs-first)); err != nil {
			return nil, err
		}
	}
	return map[string]float64{"rate": float64(q.Jobs) / time.Since(from).Seconds()}, nil
}

// singles enqueues one job at a time from Goroutines goroutines for Duration.
func (q *queue) singles(ctx context.Context, c *child) (map[string]float64, error) {
	client, err := q.client()
	if err != nil {
		return nil, err
	}
	one := func() error {
		_, err := client.Insert(ctx, newArgs(0), nil)
		return err
	}
	var warm atomic.Int64
	if _, err := while(q.Goroutines, func() bool { return warm.Add(1) <= int64(warmUp*q.Goroutines) }, one); err != nil {
		return nil, err
	}
	if ctx, err = c.begin(ctx); err != nil {
		return nil, err
	}
	from := time.Now()
	took, err := while(q.Goroutines, func() bool { return time.Since(from) < q.Duration }, one)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(from)
	slices.Sort(took)
	return map[string]float64{
		"rate": float64(len(took)) / elapsed.Seconds(),
		"jobs": float64(len(took)),
		"p50":  quantile(took, 0.5),
		"p99":  quantile(took, 0.99),
	}, nil
}

// while calls f from n goroutines, each as long as more says so, and returns how long the calls took.
func while(n int, more func() bool, f func() error) ([]time.Duration, error) {
	var group errgroup.Group
	var mu sync.Mutex
	var all []time.Duration
	for range n {
		group.Go(func() error {
			var took []time.Duration
			for more() {
				from := time.Now()
				if err := f(); err != nil {
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

// quantile is in milliseconds, of sorted durations.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return float64(sorted[max(rank, 1)-1]) / float64(time.Millisecond)
}
