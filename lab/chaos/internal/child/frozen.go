package child

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/peer"
)

// FrozenCase is what a job of scenario 2 does after its process was frozen past its lease. It
// depends on the job's number.
type FrozenCase struct {
	Action    peer.Action
	Attentive bool // it waits for the end of its context, instead of returning at once
	Slow      bool // its rival still runs it, instead of having finished it
}

// FrozenCases is the number of cases.
const FrozenCases = int(peer.Actions) * 2 * 2

// FrozenCaseOf returns the case of a job.
func FrozenCaseOf(number int) FrozenCase {
	n := number % FrozenCases
	return FrozenCase{
		Action:    peer.Action(n % int(peer.Actions)),
		Attentive: n/int(peer.Actions)%2 == 1,
		Slow:      n/int(peer.Actions)/2 == 1,
	}
}

// Attention is how long an attentive handler waits for the end of its context.
const Attention = 15 * time.Second

// The notes of a frozen handler. The cause follows ContextEnded.
const (
	Waits        = "waits to be frozen"
	ContextEnded = "context ended: "
	ContextLasts = "context lasts"
	Returned     = "returned"
	// Lost is used by every scenario: the system said that the worker had lost the job.
	Lost = "lost"
)

// frozen is the handler of scenario 2. In the first attempt it waits to be frozen. The second
// attempt is the rival.
func frozen(ctx context.Context, s *self, run peer.Run) peer.Action {
	c := FrozenCaseOf(run.Number)
	s.started(run)
	if run.Exec != nil {
		if err := run.Exec(ctx, businessSQL, run.Number, run.Attempt, s.Name); err != nil {
			return peer.Retry
		}
	}
	if run.Attempt > 1 {
		if c.Slow {
			<-s.goAhead
		}
		s.effect(run)
		return peer.Done
	}
	s.note(run, Waits)
	<-s.thawed
	if c.Attentive {
		select {
		case <-ctx.Done():
			s.note(run, ContextEnded+fmt.Sprint(context.Cause(ctx)))
		case <-time.After(Attention):
			s.note(run, ContextLasts)
		}
	}
	s.note(run, Returned)
	return c.Action
}
