package driver

import (
	"context"
	"time"

	"github.com/errandhq/errand/queue"
)

// Ruler is a backend that keeps [queue.Rule]s. Its methods may be called concurrently.
type Ruler interface {
	// SetRules sets the rules of the queues and groups that are named, through db: a transaction,
	// whose commit makes them valid, or nil for the backend's own handle. Other rules stay as they
	// are. Of two rules for one group the last counts. Claims that begin after the commit keep the
	// new rules; jobs that run beyond a lower limit go on. SetRules wakes sleeping workers of the
	// queues. It waits for a transaction that sets rules, until that ends. A bad rule (see
	// [queue.Rule.Check]) is an [*queue.InvalidError], and then nothing is changed.
	//
	// SetRules can begin a pause and ends none, so a program may set its rules at each start. To end
	// a pause, see [Pauser].
	SetRules(ctx context.Context, db queue.DB, rules ...queue.Rule) error
	// Rules returns all rules, ordered by queue and group.
	Rules(ctx context.Context) ([]queue.Rule, error)

	// RateWaits returns what the rates of a queue have left: of each named group that has a rate, and
	// of the queue itself for "". It changes nothing. Rules that another transaction has not committed
	// do not count. It may be called concurrently.
	RateWaits(ctx context.Context, queue string, groups ...string) ([]RateWait, error)
}

// RateWait says what a rate has left.
type RateWait struct {
	// Group is the group whose rate it is, or "" for the rate of the queue.
	Group string
	// Wait is how long until the rate has a token for a job of cost 1. 0 or less means that it has
	// one now: the lower, the more tokens there are.
	Wait time.Duration
	// Throttled is how long the rate still stands still, because a handler has returned
	// [queue.Throttle]. 0 means that it does not.
	Throttled time.Duration
}
