package redis

import (
	"sync"
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
)

// turn is what the last claim of a queue with rules came to, or of one of which more jobs are due
// than a claim makes so.
type turn struct {
	hasMore bool      // there may be jobs that it has not looked at
	tokens  time.Time // when a rate has tokens for the next job; may be over
	pace    limits.Pace
}

// and returns what the claims of two partitions of a queue came to.
func (t turn) and(other turn) turn {
	t.hasMore = t.hasMore || other.hasMore
	t.tokens = sooner(t.tokens, other.tokens)
	return t
}

// sooner returns the earlier one of two times. A zero time is none.
func sooner(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// turns remembers how soon workers have to claim again from queues with rules, although nobody
// wakes them. Its zero value is empty. It is safe for concurrent use.
type turns struct {
	mu  sync.Mutex
	all map[string]turn
}

// note records a claim of the queues: what it came to in those with rules, and whether it has found
// jobs. A queue of which it tells nothing has no rules, or no due jobs, unless the claim was full
// before.
func (t *turns) note(queues []string, came map[string]turn, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == 0 && len(came) == 0 {
		return
	}
	for _, name := range queues {
		now, ok := came[name]
		was := t.all[name]
		switch {
		case ok:
			// A worker that waits for tokens is not told by others that there is nothing to wait for.
			if was.tokens.After(time.Now()) {
				now.tokens = sooner(now.tokens, was.tokens)
			}
			now.pace = was.pace
			now.pace.Note(found, now.hasMore)
			t.put(name, now)
		case !found:
			delete(t.all, name)
		}
	}
}

func (t *turns) put(name string, last turn) {
	if t.all == nil {
		t.all = make(map[string]turn)
	}
	t.all[name] = last
}

// hurry makes the next pauses of a queue short: there may be a new job.
func (t *turns) hurry(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.all[name]; ok {
		last.pace.Hurry()
		t.all[name] = last
	}
}

// bound returns until when a worker of the queues may sleep: next, where less than 0 means forever,
// or less if a claim has not looked at all jobs, or if a rate has tokens sooner.
func (t *turns) bound(queues []string, next time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, name := range queues {
		if last, ok := t.all[name]; ok {
			next = limits.UntilTokens(last.pace.Bound(next), last.tokens.Sub(now))
		}
	}
	return next
}
