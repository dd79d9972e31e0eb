package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// claimLog is the memory queue, and keeps the order of the queues in each claim.
type claimLog struct {
	*queuetest.Queue
	mu     sync.Mutex
	orders [][]string
}

func (l *claimLog) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	l.mu.Lock()
	l.orders = append(l.orders, req.Queues)
	l.mu.Unlock()
	return l.Queue.Claim(ctx, req)
}

// runWeighted runs a worker with weights of 70, 20 and 10 on queues with that many jobs each, in
// one slot, until it has made 100 claims and run 100 jobs. It returns the orders of those claims,
// and the queues of the jobs that have run, in order.
func runWeighted(t *testing.T, prefetch time.Duration, jobs map[string]int) (orders [][]string, ran []string) {
	t.Helper()
	q := &claimLog{Queue: queuetest.New(queuetest.Options{})}
	for name, n := range jobs {
		all := newTasks(n)
		for _, job := range all {
			job.Queue = name
		}
		enqueue(t, q, all...)
	}
	handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
		q.mu.Lock()
		ran = append(ran, job.Queue)
		q.mu.Unlock()
		time.Sleep(time.Millisecond)
		return nil
	})
	w := start(t, engine.Worker{
		Backend: q, Handler: handler, Concurrency: 1, Prefetch: prefetch,
		Queues:  []string{"a", "b", "c"},
		Weights: map[string]int{"a": 70, "b": 20, "c": 10},
	})
	until(t, "100 claims and 100 jobs", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.orders) >= 100 && len(ran) >= 100
	})
	w.stop()
	return q.orders[:100], ran
}

// wantShares expects that each queue occurs that often in 100 names, and a tenth as often in each
// ten of them.
func wantShares(t *testing.T, names []string, a, b, c int) {
	t.Helper()
	count := func(names []string) [3]int {
		var n [3]int
		for _, name := range names {
			n[slices.Index([]string{"a", "b", "c"}, name)]++
		}
		return n
	}
	if got, want := count(names), [3]int{a, b, c}; got != want {
		t.Errorf("of 100: got %v, want %v", got, want)
	}
	for ten := range slices.Chunk(names, 10) {
		if got, want := count(ten), [3]int{a / 10, b / 10, c / 10}; got != want {
			t.Errorf("of ten in a row: got %v, want %v, in %v", got, want, ten)
		}
	}
}

func firstNames(orders [][]string) (names []string) {
	for _, order := range orders {
		names = append(names, order[0])
	}
	return names
}

// TestWeights: of 100 claims each queue comes first in as many as it has weight, evenly spread,
// whether or not the worker claims ahead. One job a claim makes that the share of the jobs, too.
func TestWeights(t *testing.T) {
	extent.Long(t)
	const many = 20_000
	for name, prefetch := range map[string]time.Duration{"without prefetch": -1, "with prefetch": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				orders, ran := runWeighted(t, prefetch, map[string]int{"a": many, "b": many, "c": many})
				wantShares(t, firstNames(orders), 70, 20, 10)
				if prefetch < 0 {
					wantShares(t, ran[:100], 70, 20, 10)
					return
				}
				share := make(map[string]int)
				for _, name := range ran {
					share[name] += 100
				}
				for name, want := range map[string]int{"a": 70, "b": 20, "c": 10} {
					if got := share[name] / len(ran); got < want-3 || got > want+3 {
						t.Errorf("jobs of %s: got %d in 100 of %d, want about %d", name, got, len(ran), want)
					}
				}
			})
		})
	}
}

// TestWeightsOfEmptyQueue: an empty queue keeps no slot idle, and the others share out its turns.
func TestWeightsOfEmptyQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		orders, ran := runWeighted(t, -1, map[string]int{"b": 1000, "c": 1000})
		if took := time.Since(began); took > 110*time.Millisecond {
			t.Errorf("100 jobs of a millisecond took %v", took)
		}
		wantShares(t, firstNames(orders), 70, 20, 10)
		wantShares(t, ran[:100], 0, 70, 30)
	})
}

// TestWeightsOfSomeQueues: a queue without a weight keeps its place.
func TestWeightsOfSomeQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &claimLog{Queue: queuetest.New(queuetest.Options{})}
		enqueue(t, q, newTasks(100)...)
		w := start(t, engine.Worker{
			Backend: q, Handler: taking(time.Millisecond), Concurrency: 1, Prefetch: -1,
			Queues:  []string{"urgent", queue.DefaultQueue, "slow", "idle"},
			Weights: map[string]int{queue.DefaultQueue: 1, "idle": 2},
		})
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == 100 })
		w.stop()
		want := [][]string{
			{"urgent", "idle", "slow", "default"}, {"urgent", "default", "slow", "idle"}, {"urgent", "idle", "slow", "default"},
		}
		for i, order := range q.orders {
			if !slices.Equal(order, want[i%3]) {
				t.Fatalf("claim %d: queues %v, want %v", i, order, want[i%3])
			}
		}
	})
}
