package remote

import (
	"context"
	"errors"
	"time"
)

// Silent gateways take requests and do not answer: they are frozen, or cut off. The problem: each
// request to one costs a whole Timeout, and a single connection to the other gateway that breaks
// would send all callers back there. The rule: a gateway that has not answered in time is asked
// last for some timeouts, or until it answers. Requests that wait there for news go to the next one
// at once.
//
// Shown by: TestSilentGateway, TestWaitAtSilentGateway.

// silentTimeouts is for how many timeouts a gateway is asked last that has not answered in time.
const silentTimeouts = 3

// errSilent is why a request has ended that waited on a gateway.
var errSilent = errors.New("the gateway has not answered a different request in time")

// noteOutcome notes whether the gateway with that index has answered, or not in time.
func (q *Queue) noteOutcome(n int, outcome sent, err error) {
	switch g := q.gateways[n]; {
	case err == nil || outcome == refused:
		g.silent.Store(0)
	case errors.Is(err, context.DeadlineExceeded):
		g.silent.Store(time.Now().Add(silentTimeouts * q.options.Timeout).UnixNano())
		g.endWaits()
	}
}

// untilSilent returns a context that ends with ctx, or when the gateway does not answer a request
// in time. The caller calls release.
func (g *gateway) untilSilent(ctx context.Context) (limited context.Context, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answering == nil {
		g.answering, g.end = context.WithCancel(context.Background())
	}
	limited, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(g.answering, func() { cancel(errSilent) })
	return limited, func() {
		unlink()
		cancel(nil)
	}
}

// endWaits ends the requests that wait on the gateway for news.
func (g *gateway) endWaits() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.answering != nil {
		g.end()
		g.answering = nil
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
