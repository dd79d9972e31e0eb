package limits

import (
	"sync"
	"time"
)

// heldBackPoll is how often a sleeping worker looks again whether a limit still keeps jobs from
// being claimed. Usually the worker whose job has ended claims at once. It does not if it has
// stopped, or has no free slot.
const heldBackPoll = time.Second

// LastClaim is what the last claim of a queue with rules came to.
type LastClaim[T any] struct {
	HeldBack bool      // a limit has kept jobs from being claimed, or may do so now
	Tokens   time.Time // when a rate has tokens for the next job; may be over
	Own      T         // what the backend keeps of it

	pace Pace
}

// LastClaims remembers the last claims of queues with rules: how soon their workers have to claim
// again although nobody wakes them. Its zero value is empty. It is safe for concurrent use.
type LastClaims[T any] struct {
	mu  sync.Mutex
	all map[string]LastClaim[T] // by queue
}

// Of returns what the last claim of the queue came to.
func (c *LastClaims[T]) Of(name string) LastClaim[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[name]
}

// Note records what a claim of the queue came to. A worker that waits for tokens is not told by the
// claims of others that there is nothing to wait for.
func (c *LastClaims[T]) Note(name string, last LastClaim[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.all[name]
	if was.Tokens.After(time.Now()) {
		last.Tokens = Sooner(last.Tokens, was.Tokens)
	}
	last.pace = was.pace
	if c.all == nil {
		c.all = make(map[string]LastClaim[T])
	}
	c.all[name] = last
}

// Sooner returns the earlier one of two times. A zero time is none.
func Sooner(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// Change changes what is known of the queue's last claim, and reports whether anything is.
func (c *LastClaims[T]) Change(name string, change func(*LastClaim[T])) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.all[name]
	if ok {
		change(&last)
		c.all[name] = last
	}
	return ok
}

// ChangeAll changes what is known of each queue's last claim.
func (c *LastClaims[T]) ChangeAll(change func(*LastClaim[T])) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, last := range c.all {
		change(&last)
		c.all[name] = last
	}
}

// NotePace records whether a claim of the queue has found jobs, and whether there are others that
// it has not looked at.
func (c *LastClaims[T]) NotePace(name string, found, hasMore bool) {
	c.Change(name, func(last *LastClaim[T]) { last.pace.Note(found, hasMore) })
}

// Hurry makes the next pauses of a queue short: there may be a new job.
func (c *LastClaims[T]) Hurry(name string) {
	c.Change(name, func(last *LastClaim[T]) { last.pace.Hurry() })
}

// Forget forgets the queue's last claim.
func (c *LastClaims[T]) Forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, name)
}

// Bound returns until when a worker of the queues may sleep although it is not woken: next, where
// less than 0 means forever, or less if a limit may have kept the last claim of one of them from
// claiming jobs, if it has not looked at all groups, or if a rate has tokens sooner.
func (c *LastClaims[T]) Bound(queues []string, next time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, name := range queues {
		last := c.all[name]
		next = last.pace.Bound(next)
		if last.HeldBack && (next < 0 || next > heldBackPoll) {
			next = heldBackPoll
		}
		next = UntilTokens(next, last.Tokens.Sub(now))
	}
	return next
}
