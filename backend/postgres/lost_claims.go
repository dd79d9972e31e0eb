package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Lost claims.
//
// Problem: a claim whose answer is lost, or comes too late, may have taken jobs that no worker
// knows of. They would wait until their lease has expired, and lose an attempt.
// Rule: the worker's next claim first releases them (sql/release_lost.sql). They have the worker's
// name, and a fence that was drawn after the lost claim was sent and that no answered claim has.
// Bounds: one statement in releaseEvery, until the lease of the last lost claim is over, because
// the server may commit late; nothing while no claim is lost.
// Shown by: TestLostClaim, TestLateClaim; the lab's scenarios give-back and cut.

const (
	releaseEvery = time.Second
	// sendTime is how long a statement may take to reach the server.
	sendTime = 10 * time.Second
	// releaseTimeout bounds release, whose caller's context may have ended.
	releaseTimeout = 2 * time.Second
)

// lostClaims is what a Backend knows about its workers' claims.
type lostClaims struct {
	mu     sync.Mutex
	fence  int64                 // the highest fence of an answered claim
	lost   map[string]*lostClaim // by worker
	unkept []queue.Outcome       // releases of claimed jobs that have failed
}

// lostClaim is what is known about a worker's claims that were not answered.
type lostClaim struct {
	sent     time.Time // when the first was sent
	until    time.Time // when the lease of the last is over
	after    int64     // a fence that was drawn before the first was sent
	answered []int64   // the fences of the claims that were answered since
	tried    time.Time // when their jobs were last released
}

// lastFence returns the highest fence of an answered claim, for a claim that is about to be sent.
func (c *lostClaims) lastFence() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fence
}

// noteAnswered records the fence of an answered claim.
func (c *lostClaims) noteAnswered(worker string, fence int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fence = max(c.fence, fence)
	if l := c.lost[worker]; l != nil {
		l.answered = append(l.answered, fence)
	}
}

// noteLost records that a claim was not answered. It was sent at that time, after the fence was
// drawn.
func (c *lostClaims) noteLost(req queue.ClaimRequest, sent time.Time, after int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = make(map[string]*lostClaim)
	}
	l := c.lost[req.Worker]
	if l == nil {
		l = &lostClaim{sent: sent, after: after}
		c.lost[req.Worker] = l
	}
	l.until = time.Now().Add(req.Lease)
}

// takeDue returns the releases to settle again now, and a copy of what is known about the worker's lost
// claims if it is time to release their jobs; otherwise nil.
func (c *lostClaims) takeDue(worker string) (unkept []queue.Outcome, l *lostClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unkept, c.unkept = c.unkept, nil
	if l := c.lost[worker]; l != nil && time.Since(l.tried) >= releaseEvery {
		l.tried = time.Now()
		copied := *l
		return unkept, &copied
	}
	return unkept, nil
}

// noteReleased forgets the worker's lost claims if their leases were over at that time.
func (c *lostClaims) noteReleased(worker string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lost[worker]; l != nil && at.After(l.until) {
		delete(c.lost, worker)
	}
}

// releaseLost releases the jobs of the worker's lost claims, with sql/release_lost.sql. Almost
// always there are none, and it sends nothing.
func (b *Backend) releaseLost(ctx context.Context, worker string) error {
	unkept, l := b.lostClaims.takeDue(worker)
	b.release(ctx, unkept...)
	if l == nil {
		return nil
	}
	begun := time.Now()
	var answered array
	for _, fence := range l.answered {
		answered.int(fence)
	}
	_, err := b.queryIDs(ctx, "claim", nil, b.sql.releaseLost, worker, l.after, answered.String(),
		sqlkit.Microseconds(begun.Sub(l.sent)+sendTime), !b.options.Silent)
	if err == nil {
		b.lostClaims.noteReleased(worker, begun)
	}
	return err
}

// release settles the releases of jobs that were claimed and are not returned to the worker. It
// returns those that the worker has lost. If it fails, a later claim settles them again.
func (b *Backend) release(ctx context.Context, outcomes ...queue.Outcome) (lost []*queue.Job) {
	if len(outcomes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	lost, err := b.Settle(ctx, nil, outcomes...)
	if err != nil {
		b.lostClaims.mu.Lock()
		defer b.lostClaims.mu.Unlock()
		b.lostClaims.unkept = append(b.lostClaims.unkept, outcomes...)
	}
	return lost
}

// releases returns the outcomes that release jobs, which keep their places.
func releases(jobs []*queue.Job) []queue.Outcome {
	outcomes := make([]queue.Outcome, len(jobs))
	for i, job := range jobs {
		job.Payload, job.Headers = nil, nil
		outcomes[i] = queue.Outcome{Job: job, Action: queue.Release}
	}
	return outcomes
}
