package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestSlotMoves: the slots of all partitions move to another master, and on, while jobs are
// enqueued, claimed and settled. No call fails, and each job is settled once.
func TestSlotMoves(t *testing.T) {
	extent.Long(t)
	const partitions, jobs, batch = 4, 4000, 20
	client, name := redistest.OpenCluster(t), redistest.Namespace()
	b, err := redis.New(t.Context(), client, redis.Options{Namespace: name, Partitions: partitions, Spread: partitions})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := &ledger{b: b, settled: make(map[int64]int)}
	var all sync.WaitGroup
	moved := make(chan error, 1)
	go func() { moved <- moveAll(ctx, client, name, partitions) }()
	for range 2 {
		all.Go(func() { l.enqueue(ctx, t, jobs/2, batch) })
		all.Go(func() { l.work(ctx, t, jobs) })
	}
	all.Wait()
	if err := <-moved; err != nil {
		t.Error(err)
	}
	l.check(t, jobs)
}

// moveAll moves the slot of each partition three times, which brings it back.
func moveAll(ctx context.Context, client rueidis.Client, name string, partitions int) error {
	for range 3 {
		for p := range partitions {
			key := fmt.Sprintf("{%s:%d}:meta", name, p)
			slot, err := client.Do(ctx, client.B().ClusterKeyslot().Key(key).Build()).AsInt64()
			if err == nil {
				err = redistest.Move(ctx, client, int(slot))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ledger notes what was acknowledged.
type ledger struct {
	b *redis.Backend

	mu       sync.Mutex
	enqueued []int64
	settled  map[int64]int // how often
}

// enqueue enqueues n jobs, some a call.
func (l *ledger) enqueue(ctx context.Context, t *testing.T, n, some int) {
	for range n / some {
		jobs := newJobs(some)
		if err := l.b.Enqueue(ctx, nil, jobs...); err != nil {
			t.Errorf("Enqueue: %v", err)
			return
		}
		l.mu.Lock()
		for _, j := range jobs {
			l.enqueued = append(l.enqueued, j.ID)
		}
		l.mu.Unlock()
	}
}

// work claims and settles until n jobs are settled.
func (l *ledger) work(ctx context.Context, t *testing.T, n int) {
	for ctx.Err() == nil && !l.hasSettled(n) {
		jobs, err := l.b.Claim(ctx, request(50))
		if err != nil {
			t.Errorf("Claim: %v", err)
			return
		}
		outcomes := make([]queue.Outcome, len(jobs))
		for i, j := range jobs {
			outcomes[i].Job = j
		}
		lost, err := l.b.Settle(ctx, nil, outcomes...)
		if err = errors.Join(err, ctx.Err()); err != nil || len(lost) > 0 {
			t.Errorf("Settle of %d jobs: lost %d, error %v", len(jobs), len(lost), err)
			return
		}
		l.mu.Lock()
		for _, j := range jobs {
			l.settled[j.ID]++
		}
		l.mu.Unlock()
	}
}

func (l *ledger) hasSettled(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.settled) >= n
}

// check checks that each job that was acknowledged was settled once.
func (l *ledger) check(t *testing.T, n int) {
	t.Helper()
	if len(l.enqueued) != n {
		t.Errorf("acknowledged: got %d, want %d", len(l.enqueued), n)
	}
	for _, id := range l.enqueued {
		if times := l.settled[id]; times != 1 {
			t.Errorf("job %d was settled %d times, want 1", id, times)
		}
	}
}
