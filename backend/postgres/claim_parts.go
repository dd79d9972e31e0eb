package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
	"github.com/errandhq/errand/queue"
)

// Claims of several queues.
//
// Problem: claims of a limited queue, and those of ordered jobs, go one at a time. While a claim
// waits for its turn there, the jobs that it has claimed from other queues do not start, and new
// jobs of those are not seen.
// Rule: a claim that has jobs waits for nothing, and what is left of it takes a tenth of the lease
// at most. A claim that has none waits shortly for each lock, and then looks at all queues again.
// It waits for longer the next time, because claims have their turns in the order in which they
// came. Only a claim of one queue waits for long.
// Bounds: sharedPatience or some times as long for each lock; busyTime for a claim. Then its worker
// sleeps, can be woken, and looks again after limits.WalkTime.
// Shown by: TestClaimBesideHeldLock, BenchmarkBesideLimited, the case "a brief lease" of the suite.

const (
	// rulesTries bounds how often one claim is repeated because the rules have changed meanwhile.
	rulesTries = 100
	// busyTime is about how long a claim without jobs goes on while the locks of queues are held.
	busyTime = 150 * time.Millisecond
	// longestRest bounds what is left of a claim that has jobs, where a tenth of the lease does not.
	longestRest = time.Minute
)

// patience is for how long a part of a claim waits for the lock of a queue's claims.
type patience time.Duration

const (
	// noPatience is that of a claim that has jobs. It repeats no statement that gave up on a lock.
	noPatience patience = 0
	// sharedPatience is that of a claim of several queues that has no jobs. It is doubled for each
	// claim before that has not had its turn, up to three times.
	sharedPatience = patience(20 * time.Millisecond)
	// fullPatience is that of a claim of one queue. Its statement is repeated if that is not enough.
	fullPatience = patience(time.Second)
)

// errClaimsBusy: other claims hold the lock of the queue.
var errClaimsBusy = errors.New("other claims of the queue hold its lock")

// after returns the patience after so many claims in sequence that have not had their turn.
func (p patience) after(busy int) patience {
	if p != sharedPatience {
		return p
	}
	return p << (busy % 4)
}

// asLockBusy makes an errLockBusy of the error of a statement that gave up on a lock, if it is to
// be repeated.
func (p patience) asLockBusy(err error) error {
	switch {
	case p == noPatience:
		return err
	case p == fullPatience && errors.Is(err, errClaimsBusy):
		return errors.Join(errLockBusy, err)
	}
	return asLockBusy(err)
}

// claim is a Claim under way.
type claim struct {
	b           *Backend
	req         queue.ClaimRequest
	known       *knownRules
	rest        []string // the queues that it has not claimed from
	onlyOrdered bool     // of the first of them, only the ordered jobs are left
	jobs        []*queue.Job
	tries       int       // how often it has read the rules
	isBusy      bool      // it has passed over a queue whose lock other claims hold
	until       time.Time // when it ends, once it has jobs
}

// claimPart claims from the first part of the queues that are left. If the server knows better what
// they are, it is called again for them. It is no error that other claims hold the lock of the
// queue, unless the claim is of that queue only.
func (c *claim) claimPart(ctx context.Context) (err error) {
	n, isLimited, hasOrdered := c.firstPart()
	req, wait := left(c.req, c.jobs), c.patience()
	req.Queues = c.rest[:n]
	if len(c.jobs) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.until)
		defer cancel()
	}
	var jobs []*queue.Job
	switch {
	case isLimited:
		jobs, err = c.b.claimLimited(ctx, req, c.known, wait)
	case c.onlyOrdered:
		jobs, err = c.b.claimOrdered(ctx, req, c.known.version, wait)
	default:
		r := c.b.rations.of(req, false)
		if r.isRationed() {
			jobs, err = c.b.claimPlainRationed(ctx, req, r, c.known.version, wait)
			break
		}
		started := time.Now()
		jobs, _, err = c.b.claimWithPayloads(ctx, req, c.b.spansClaim(wholeQueues(req.Queues), true, c.known.version, wait))
		if err == nil {
			c.b.rationIfCostly(ctx, req, r, time.Since(started), jobs)
		}
	}
	c.jobs = append(c.jobs, jobs...)
	if len(c.jobs) > 0 && c.until.IsZero() {
		c.until = time.Now().Add(limits.RestOfClaim(req.Lease, longestRest))
	}
	switch state := sqlState(err); {
	case wait != fullPatience && errors.Is(err, errClaimsBusy):
		c.isBusy = true
	case state == foundOrdered:
		return c.b.findOrdered(ctx, req.Queues)
	case state == rulesChanged && c.tries < rulesTries:
		return c.refreshRules(ctx)
	case err != nil:
		return err
	}
	if c.onlyOrdered = hasOrdered && !c.onlyOrdered; c.onlyOrdered {
		n--
	}
	c.rest = c.rest[n:]
	return nil
}

// firstPart returns how many of the queues that are left claimPart is about, and what they are: a
// limited queue, those that are not limited, up to the first with ordered jobs, or the ordered jobs
// of that one.
func (c *claim) firstPart() (n int, isLimited, hasOrdered bool) {
	switch {
	case c.onlyOrdered:
		return 1, false, true
	case c.known.isLimited(c.rest[0]):
		return 1, true, false
	}
	for n < len(c.rest) && !c.known.isLimited(c.rest[n]) {
		n++
	}
	n, hasOrdered = c.b.ordered.upTo(c.rest[:n], time.Now())
	return n, false, hasOrdered
}

// patience returns for how long the next part waits for a lock.
func (c *claim) patience() patience {
	switch {
	case len(c.jobs) > 0:
		return noPatience
	case len(c.req.Queues) == 1:
		return fullPatience
	}
	return sharedPatience
}

// refreshRules reads the rules, which have changed since.
func (c *claim) refreshRules(ctx context.Context) error {
	c.tries++
	known, err := c.b.refreshRules(ctx)
	if err == nil {
		c.known, c.onlyOrdered = known, false
	}
	return err
}
