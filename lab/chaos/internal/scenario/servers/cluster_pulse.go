package servers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/peer"
	"github.com/errandhq/errand/queue"
)

// pulse enqueues and claims jobs of its own, and compares their IDs and fences.
type pulse struct {
	q    *redis.Backend
	end  context.CancelFunc
	over sync.WaitGroup

	ids, fences, backward int
	lastID, lastFence     map[int]int64 // by partition
}

const (
	pulseQueue  = "pulse"
	pulseNumber = 90_000_000 // of all its jobs
)

func newPulse(ctx context.Context, q *redis.Backend) *pulse {
	p := &pulse{q: q, lastID: make(map[int]int64), lastFence: make(map[int]int64)}
	ctx, p.end = context.WithCancel(ctx)
	p.over.Go(func() {
		for ctx.Err() == nil {
			p.enqueue()
			p.work()
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return p
}

// stop ends it. Further calls do nothing.
func (p *pulse) stop() {
	p.end()
	p.over.Wait()
}

// enqueue enqueues a job. It may fail.
func (p *pulse) enqueue() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	job := peer.PlainJob(pulseNumber)
	job.Queue = pulseQueue
	if err := p.q.Enqueue(ctx, nil, job); err == nil {
		p.ids++
		p.compare(p.lastID, peer.RedisPartition(job.ID), job.ID)
	}
}

// work claims what there is, and completes it. It may fail.
func (p *pulse) work() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	claimed, err := p.q.Claim(ctx, queue.ClaimRequest{Queues: []string{pulseQueue}, Worker: pulseQueue, Lease: clusterLease, Limit: 100})
	if err != nil {
		return
	}
	var outcomes []queue.Outcome
	drawn := make(map[int]bool) // jobs of one claim have one fence
	for _, j := range claimed {
		if of := peer.RedisPartition(j.ID); !drawn[of] {
			drawn[of] = true
			p.fences++
			p.compare(p.lastFence, of, j.Fence)
		}
		outcomes = append(outcomes, queue.Outcome{Job: j, Action: queue.Done})
	}
	_, _ = p.q.Settle(ctx, nil, outcomes...) // what it does not settle is claimed again
}

// drain completes what is left of its jobs.
func (p *pulse) drain(ctx context.Context, h *harness.Harness) error {
	return h.WaitUntil(ctx, time.Minute, func() (bool, error) {
		p.work()
		counts, err := p.q.Counts(ctx)
		if err != nil {
			return false, ctx.Err()
		}
		return !slices.ContainsFunc(counts, func(c queue.StatusCount) bool {
			return c.Queue == pulseQueue && c.Status != queue.StatusCompleted && c.Jobs > 0
		}), nil
	})
}

// compare counts a value that is not higher than the last one of a partition.
func (p *pulse) compare(last map[int]int64, partition int, value int64) {
	if value <= last[partition] {
		p.backward++
	}
	last[partition] = value
}
