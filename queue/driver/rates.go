package driver

import "time"

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
