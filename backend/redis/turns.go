package redis

import (
	"time"

	"github.com/errandhq/errand/backend/internal/limits"
)

// turn is what the last claim of a queue with rules came to, or of one of which more jobs are due
// than a claim makes so.
type turn struct {
	hasMore bool      // there may be jobs that it has not looked at
	tokens  time.Time // when a rate has tokens for the next job; may be over
}

// and returns what the claims of two partitions of a queue came to.
func (t turn) and(other turn) turn {
	t.hasMore = t.hasMore || other.hasMore
	t.tokens = limits.Sooner(t.tokens, other.tokens)
	return t
}

// noteTurns records a claim of the queues: what it came to in those with rules, and whether it has
// found jobs. A queue of which it tells nothing has no rules, or no due jobs, unless the claim was
// full before.
func (b *Backend) noteTurns(queues []string, came map[string]turn, found bool) {
	for _, name := range queues {
		if now, ok := came[name]; ok {
			b.turns.Note(name, limits.LastClaim[struct{}]{Tokens: now.tokens})
			b.turns.NotePace(name, found, now.hasMore)
		} else if !found {
			b.turns.Forget(name)
		}
	}
}
