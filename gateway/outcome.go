package gateway

import (
	"strings"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
)

// outcomeOf returns the outcome for the backend.
func outcomeOf(o wire.Outcome) (queue.Outcome, error) {
	out := queue.Outcome{Job: wire.Held{ID: o.ID, Fence: o.Fence, Worker: o.Worker}.Job(), Output: o.Output, Throttle: o.Throttle}
	var err error
	if out.Action, err = actionOf(o.Action); err != nil {
		return out, err
	}
	switch {
	case o.Delay != nil && *o.Delay < 0:
		return out, invalid("delay_ns", "%v: at least 0", *o.Delay)
	case o.Attempt < 0:
		return out, invalid("attempt", "%d: at least 0", o.Attempt)
	case o.Delay != nil:
		out.Delay = *o.Delay
	case out.Action == queue.Retry:
		out.Delay = queue.Backoff(o.Attempt)
	}
	if o.Error != "" || o.Stack != "" {
		out.Err = &runError{text: o.Error, stack: o.Stack}
	}
	return out, nil
}

// actionOf returns the action of that name.
func actionOf(name string) (queue.OutcomeAction, error) {
	var names []string
	for a := queue.Done; a <= queue.Cancel; a++ {
		if a.String() == name {
			return a, nil
		}
		names = append(names, a.String())
	}
	return 0, invalid("action", "%.40q: one of %s", name, strings.Join(names, ", "))
}

// runError is the error of a run, as the client tells it. Backends store its text and its stack.
type runError struct {
	text, stack string
}

func (e *runError) Error() string { return e.text }

// Unwrap returns the panic that the run ended with, or nil.
func (e *runError) Unwrap() error {
	if e.stack == "" {
		return nil
	}
	return &queue.PanicError{Stack: []byte(e.stack)}
}
