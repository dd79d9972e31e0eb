package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/sqlkit"
	"github.com/errandhq/errand/queue"
)

// Unanswered claims.
//
// Problem: a claim whose answer does not arrive, or arrives too late, may have taken jobs that no
// worker knows of. They would wait until their lease has expired, and lose an attempt.
// Rule: the worker's next claim first releases them (sql/release_unanswered.sql). They have the
// worker's name, and a fence that was drawn after the unanswered claim was sent and that no
// answered claim has.
// It is off for a name that other processes, or claims at the same time, use as well
// (ClaimRequest.Shared): their jobs look the same. Jobs of the unanswered claim then wait.
// Bounds: one statement in releaseEvery, until the lease of the last unanswered claim is over,
// because the server may commit late; nothing while all claims are answered.
// Shown by: TestUnansweredClaim, TestUnansweredClaimOfShared, TestLateClaim; the lab's scenarios
// give-back and cut.

const (
	releaseEvery = time.Second
	// sendTime is how long a statement may take to reach the server.
	sendTime = 10 * time.Second
	// releaseTimeout bounds release, whose caller's context may have ended.
	releaseTimeout = 2 * time.Second
)

// unansweredClaims is what a Backend knows about its workers' claims.
type unansweredClaims struct {
	mu             sync.Mutex
	fence          int64                       // the highest fence of an answered claim
	byWorker       map[string]*unansweredClaim // of the workers that have some
	failedReleases []queue.Outcome             // releases of claimed jobs that have failed
}

// unansweredClaim is what is known about a worker's claims that were not answered.
type unansweredClaim struct {
	sent     time.Time // when the first was sent
	until    time.Time // when the lease of the last is over
	after    int64     // a fence that was drawn before the first was sent
	answered []int64   // the fences of the claims that were answered since
	tried    time.Time // when their jobs were last released
}

// sentClaim is a claim that is about to be sent, or was sent.
type sentClaim struct {
	claims *unansweredClaims
	req    queue.ClaimRequest
	at     time.Time
	after  int64 // a fence that was drawn before
}

// begin returns a claim that is about to be sent.
func (c *unansweredClaims) begin(req queue.ClaimRequest) sentClaim {
	at := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return sentClaim{c, req, at, c.fence}
}

// noteTry notes the error of one run of the statement, or nil.
func (s sentClaim) noteTry(err error) {
	if err != nil && !isRefused(err) && !isUnsent(err) {
		s.claims.noteUnanswered(s)
	}
}

// noteEnd notes what the last run came to, with its commit.
func (s sentClaim) noteEnd(jobs []*queue.Job, err error) {
	switch {
	case errors.Is(err, queue.ErrUnknown): // the commit was not answered
		s.claims.noteUnanswered(s)
	case err == nil && len(jobs) > 0:
		s.claims.noteAnswered(s.req.Worker, jobs)
	}
}

// noteAnswered records the fence of an answered claim. The jobs have several if the sequence was
// set back.
func (c *unansweredClaims) noteAnswered(worker string, jobs []*queue.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, noted := c.byWorker[worker], int64(0)
	for _, job := range jobs {
		c.fence = max(c.fence, job.Fence)
		if u != nil && job.Fence != noted {
			noted = job.Fence
			u.answered = append(u.answered, noted)
		}
	}
}

// noteUnanswered records that a claim was not answered, unless other processes use the worker's
// name.
func (c *unansweredClaims) noteUnanswered(s sentClaim) {
	if s.req.Shared {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byWorker == nil {
		c.byWorker = make(map[string]*unansweredClaim)
	}
	u := c.byWorker[s.req.Worker]
	if u == nil {
		u = &unansweredClaim{sent: s.at, after: s.after}
		c.byWorker[s.req.Worker] = u
	}
	u.until = time.Now().Add(s.req.Lease)
}

// takeRetries returns the failed releases, which are to be settled again now. It also returns a
// copy of what is known about the worker's unanswered claims, or nil if it is not time to release
// their jobs, or if other processes use the worker's name.
func (c *unansweredClaims) takeRetries(req queue.ClaimRequest) (failed []queue.Outcome, u *unansweredClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed, c.failedReleases = c.failedReleases, nil
	if u := c.byWorker[req.Worker]; u != nil && !req.Shared && time.Since(u.tried) >= releaseEvery {
		u.tried = time.Now()
		copied := *u
		return failed, &copied
	}
	return failed, nil
}

// noteReleased forgets the worker's unanswered claims if their leases were over at that time.
func (c *unansweredClaims) noteReleased(worker string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.byWorker[worker]; u != nil && at.After(u.until) {
		delete(c.byWorker, worker)
	}
}

// noteFailed records releases that have failed, for a later claim to settle again.
func (c *unansweredClaims) noteFailed(releases []queue.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failedReleases = append(c.failedReleases, releases...)
}

// releaseUnanswered releases the jobs of the worker's unanswered claims, with
// sql/release_unanswered.sql. Almost always there are none, and it sends nothing.
func (b *Backend) releaseUnanswered(ctx context.Context, req queue.ClaimRequest) error {
	failed, u := b.unansweredClaims.takeRetries(req)
	b.release(ctx, failed...)
	if u == nil {
		return nil
	}
	begun := time.Now()
	var answered array
	for _, fence := range u.answered {
		answered.int(fence)
	}
	args := []any{req.Worker, u.after, answered.String(), sqlkit.Microseconds(begun.Sub(u.sent) + sendTime), !b.options.Silent}
	err := b.passBad(ctx, "claim", &b.badRows.releases, newUpkeep(b.sql["release_unanswered"], 5, "AND $5::boolean IS NOT NULL"), args, func(text string, last ...any) error {
		_, err := b.queryIDs(ctx, "claim", nil, text, append(slices.Clone(args), last...)...)
		return err
	})
	if err == nil {
		b.unansweredClaims.noteReleased(req.Worker, begun)
	}
	return err
}

// release settles the releases of jobs that were claimed and are not returned to the worker. It
// returns the jobs that the worker has lost. If it fails, a later claim settles them again.
func (b *Backend) release(ctx context.Context, outcomes ...queue.Outcome) (lost []*queue.Job) {
	if len(outcomes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	lost, err := b.Settle(ctx, nil, outcomes...)
	if err != nil {
		b.unansweredClaims.noteFailed(outcomes)
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
