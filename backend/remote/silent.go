package remote

import (
	"context"
	"errors"
	"time"
)

// Silent gateways take requests and do not answer: they are frozen, or cut off. The problem: each
// request to one costs a whole Timeout, and a single connection to the other gateway that breaks
// would send all callers back there. The rule: a gateway that has not answered in time is asked
// last for some timeouts, or until it answers.
//
// Shown by: TestSilentGateway.

// silentTimeouts is for how many timeouts a gateway is asked last that has not answered in time.
const silentTimeouts = 3

// noteOutcome notes whether the gateway with that index has answered, or not in time.
func (q *Queue) noteOutcome(n int, outcome sent, err error) {
	switch {
	case err == nil || outcome == refused:
		q.gateways[n].silent.Store(0)
	case errors.Is(err, context.DeadlineExceeded):
		q.gateways[n].silent.Store(time.Now().Add(silentTimeouts * q.options.Timeout).UnixNano())
	}
}

// order returns the indices of the gateways in the order in which to ask them: those that have been
// silent come last.
func (q *Queue) order(now time.Time) []int {
	first := int(q.first.Load())
	var order, silent []int
	for i := range q.gateways {
		n := (first + i) % len(q.gateways)
		if q.gateways[n].silent.Load() > now.UnixNano() {
			silent = append(silent, n)
		} else {
			order = append(order, n)
		}
	}
	return append(order, silent...)
}
