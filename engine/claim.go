package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// claimPause is the longest pause after a claim that came back short, and pauseShare how many
	// times as long as the claim the pause is. Without the pause, claims of one or two jobs would
	// keep the machine busy while jobs trickle in.
	claimPause = 3 * time.Millisecond
	pauseShare = 2
	// maxShrinkage is how often the worker halves claimBytes, and the number of jobs, at most,
	// while claims are not answered in time.
	maxShrinkage = 10
	// longestClaim bounds a claim after payloads that were not read within claimTimeout. During it
	// no other job is claimed.
	longestClaim = 2 * time.Minute
)

// claims claims jobs. Only the claim loop uses its fields, so they need no lock.
type claims struct {
	*shared
	held      *holding
	wakeups   *wakeups
	reporting *reporting
	leases    *leases
	slots     *slots

	isApart   bool          // queues with a number have claims of their own
	turns     turns         // the order of the queues in each claim
	shrinkage int           // how often claiming has halved what it asks for
	claimTime time.Duration // how long a claim may take
	slowUntil time.Time     // until then it is more than claimTimeout, because a payload was slow
	ended     chan struct{} // closed when the claim loop has ended
}

func newClaims(s *shared, held *holding, w *wakeups, r *reporting, l *leases, slots *slots) *claims {
	return &claims{
		shared: s, held: held, wakeups: w, reporting: r, leases: l, slots: slots,
		turns: newTurns(s.Queues, s.Weights), claimTime: claimTimeout, ended: make(chan struct{}),
	}
}

// start starts the claim loop, which begins no claim after ctx has ended. A claim that is
// under way then continues until the caller calls end.
func (c *claims) start(ctx context.Context) (end context.CancelFunc) {
	claims, end := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(c.ended)
		c.claimLoop(ctx, claims)
	}()
	return end
}

// hasEnded reports whether the claim loop has ended.
func (c *claims) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// claimLoop claims as many jobs as there is room for. After a claim that comes back short it
// pauses. After a claim that comes back empty it announces that it will sleep, claims once more,
// and sleeps. It does so at once if the first claim after a sleep comes back short: where jobs come
// one by one, the next claim would be empty. It returns when ctx has ended and the last claim has
// returned, or when the first claim shows that the backend is not set up. Claims do not end with
// ctx but with claims, because the worker has to release the jobs of the claim that is under way.
func (c *claims) claimLoop(ctx, claims context.Context) {
	log := c.watchCalls("claim")
	hasClaimed := false // a claim has succeeded
	isAsleep := false   // Sleep has been called, and no job found since
	isFirst := false    // the claim is the first one after awaitJobs
	var until time.Time // while asleep: how long the answer of Sleep is valid
	for ctx.Err() == nil {
		n, free := c.held.roomNow()
		if _, isPaused := c.paused.Without(c.kinds); n == 0 || isPaused {
			c.awaitRoom(ctx)
			continue
		}
		before := time.Now()
		got, isFull, err := c.claimRound(claims, n, free)
		took := time.Since(before)
		c.reporting.noteClaim(before, err)
		var setup *queue.SetupError
		if !hasClaimed && errors.As(err, &setup) {
			c.quit(fmt.Errorf("queue: worker %s cannot claim: %w", c.Name, err))
			return
		}
		hasClaimed = hasClaimed || err == nil
		if err != nil && claims.Err() != nil {
			c.Logger.Warn("errand: claim given up at shutdown; its jobs run again when their leases have expired", "error", err)
			return
		}
		if pause := log.Report(err); err != nil {
			c.outage.begin()
			upkeep.Sleep(ctx, pause)
			continue
		}
		wasFirst := isFirst
		isFirst = false
		switch {
		case isFull:
			isAsleep = false
		case got > 0 && !wasFirst:
			isAsleep = false
			c.pauseClaims(ctx, min(pauseShare*took, claimPause))
		case got > 0 || !isAsleep:
			isAsleep = true
			until = c.wakeups.announceSleep(ctx)
		default:
			isAsleep = c.wakeups.awaitJobs(ctx, until)
			isFirst = true
		}
	}
}

// pauseClaims waits for d. It returns sooner if jobs are settled meanwhile that keep others from
// being claimed while they run, and no job is left to run.
func (c *claims) pauseClaims(ctx context.Context, d time.Duration) {
	select {
	case <-c.held.drained: // by jobs of an earlier claim
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-c.held.drained:
	case <-t.C:
	}
}

// claimRound claims at most n jobs, in one claim unless queues have numbers of slots. It returns
// how many it got, and whether more jobs are due for which there is room.
func (c *claims) claimRound(ctx context.Context, n, free int) (got int, isFull bool, err error) {
	c.wakeups.forgetDue(time.Now()) // before it looks which slots are free
	queues := c.turns.next()
	if len(c.Slots) == 0 {
		return c.claimOnce(ctx, ask{queues: queues, limit: n}, n, free)
	}
	hasMore := false // a claim came back full
	for _, a := range c.held.roundOf(queues, n, c.isApart) {
		if a.limit = min(a.limit, n-got); a.limit < 1 {
			break
		}
		jobs, isFull, err := c.claimOnce(ctx, a, n-got, max(free-got, 0))
		got += jobs
		hasMore = hasMore || isFull
		if err != nil || isFull && (a.own == nil || c.held.roomOf(a.own) > 0) {
			c.isApart = true
			return got, isFull, err
		}
	}
	c.isApart = hasMore
	return got, false, nil
}

// claimOnce claims the jobs of a and starts them; free slots can start so many at once. n is how
// many there is room for. It returns how many it got, and whether the claim came back full: then
// more jobs are due.
func (c *claims) claimOnce(ctx context.Context, a ask, n, free int) (got int, full bool, err error) {
	before := time.Now()
	if before.After(c.slowUntil) {
		c.claimTime = claimTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, c.claimTime)
	defer cancel()
	req := c.sizedRequest(a)
	req.Ahead = max(req.Limit-free, 0)
	jobs, err := c.Backend.Claim(ctx, req)
	if slow, ok := errors.AsType[*driver.SlowError](err); ok {
		c.noteSlow(slow)
		return 0, true, nil
	}
	c.adjustSize(err, time.Since(before))
	if err != nil {
		return 0, false, err
	}
	full = isFull(req, jobs)
	if a.own == nil && (!full || a.limit == n) { // else it tells nothing of the other queues
		c.held.noteBacklog(full, jobs)
	}
	c.startJobs(ctx, jobs, before)
	return len(jobs), full, nil
}

// startJobs holds claimed jobs, so that their leases are extended from now on, and passes them to
// the slots.
func (c *claims) startJobs(ctx context.Context, jobs []*queue.Job, claimed time.Time) {
	jobs, leased := c.leases.extendLate(ctx, jobs, claimed)
	added, newSlots := c.held.add(jobs, leased)
	c.leases.recheckHints()
	c.slots.start(added, newSlots)
}

// noteSlow logs that a payload could not be read in time, and gives the next claims twice the time,
// up to two thirds of the lease, until the job has come again.
func (c *claims) noteSlow(slow *driver.SlowError) {
	c.Logger.Warn("errand: payload not read in time, job released; claims get more time",
		append(jobAttrs(slow.Job), "due_in", slow.Delay, "error", slow.Err)...)
	c.claimTime = max(c.claimTime, min(2*c.claimTime, c.Lease*2/3, longestClaim))
	c.slowUntil = time.Now().Add(2 * slow.Delay)
	c.wakeups.noteDue(time.Now().Add(slow.Delay))
}

// isFull reports whether a claim returned as many jobs as it asked for (of limited queues, as many
// as slots are free), or so many bytes that the next job may not have fitted.
func isFull(req queue.ClaimRequest, jobs []*queue.Job) bool {
	bytes := 0
	for _, job := range jobs {
		bytes += sizeOf(job)
	}
	return len(jobs) == req.Limit || bytes > req.Bytes/2 ||
		len(jobs) > 0 && len(jobs) == req.Limit-req.Ahead && jobs[len(jobs)-1].Limited
}

// sizedRequest returns the request for the jobs of a, or for fewer if claims were not answered in
// time.
func (c *claims) sizedRequest(a ask) queue.ClaimRequest {
	kinds, isPaused := c.paused.Without(c.kinds)
	if isPaused { // since roomNow: holding.add releases the jobs
		kinds = c.kinds
	}
	req := c.request(kinds, max(a.limit>>c.shrinkage, 1))
	req.Queues = a.queues
	req.Bytes = claimBytes >> c.shrinkage
	return req
}

// adjustSize halves the size of the next claims after a claim that was not answered in time. It
// doubles the size after a claim so short that one of twice the size would be answered in time.
func (c *claims) adjustSize(err error, took time.Duration) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		c.shrinkage = min(c.shrinkage+1, maxShrinkage)
	case err == nil && took < claimTimeout/4:
		c.shrinkage = max(c.shrinkage-1, 0)
	}
}

// awaitRoom waits until there may be room, or until ctx ends.
func (c *claims) awaitRoom(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-c.held.room:
	}
}
