package queue

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
)

// unknownKindDelay is how long a job that reached a Mux without a handler for it
// waits before another worker may look at it.
const unknownKindDelay = 10 * time.Second

// Mux is a Handler that passes each job to the handler of its kind. The zero value
// is an empty Mux, ready for use. It is safe for concurrent use, and must not be
// copied.
//
// A [Worker] finds a Mux that is its Handler, that stands within a [Chain], or that
// a handler returns from a method Unwrap() queue.Handler. It then claims only the
// kinds that are registered when Run begins: in a rolling deploy the old workers
// leave the new version's jobs alone. A Mux within a function the worker cannot
// find. It then claims every kind, and logs a warning when the Mux gives a job back.
type Mux struct {
	mu     sync.RWMutex
	routes map[string]route
}

type route struct {
	handler Handler
	timeout time.Duration // the kind's own; 0 means none, below 0 that no other applies either
	place   string
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{} }

// Handle registers h for the kind. It panics if h is nil, and if the name is not a
// valid one or already has a handler; the message names the places of both registrations.
func (m *Mux) Handle(kind string, h Handler) { m.register(kind, 0, h) }

// register is called by Handle and Kind.Handle, whose caller is the place to name.
func (m *Mux) register(kind string, timeout time.Duration, h Handler) {
	if err := checkName("Kind", kind); err != nil {
		panic(err)
	}
	if h == nil {
		panic(fmt.Sprintf("queue: the handler of kind %q is nil", kind))
	}
	place := "unknown"
	if _, file, line, ok := runtime.Caller(2); ok {
		place = fmt.Sprintf("%s:%d", file, line)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.routes[kind]; ok {
		panic(fmt.Sprintf("queue: kind %q is handled twice: at %s and at %s", kind, old.place, place))
	}
	if m.routes == nil {
		m.routes = make(map[string]route)
	}
	m.routes[kind] = route{handler: h, timeout: timeout, place: place}
}

// HandleJob passes the job on, and ends the handler's context after the Timeout of
// the job's [Kind]. A job of a kind without a handler is given back for ten seconds
// without costing an attempt.
func (m *Mux) HandleJob(ctx context.Context, job *Job) error {
	r, ok := m.route(job.Kind)
	if !ok {
		return snooze(unknownKindDelay, unknownKind(job.Kind))
	}
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	return r.handler.HandleJob(ctx, job)
}

// unknownKind is the error of a Mux that has no handler for a job of that kind.
type unknownKind string

func (kind unknownKind) Error() string {
	return fmt.Sprintf("queue: no handler for kind %q", string(kind))
}

func (m *Mux) route(kind string) (r route, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, ok = m.routes[kind]
	return r, ok
}

// Kinds lists the registered kinds in alphabetical order.
func (m *Mux) Kinds() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	kinds := slices.AppendSeq(make([]string, 0, len(m.routes)), maps.Keys(m.routes))
	slices.Sort(kinds)
	return kinds
}

// handlers returns the handlers of all kinds.
func (m *Mux) handlers() (all []Handler) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, r := range m.routes {
		all = append(all, r.handler)
	}
	return all
}

// timeouts returns the kinds that have a timeout of their own.
func (m *Mux) timeouts() map[string]time.Duration {
	own := make(map[string]time.Duration)
	for _, kind := range m.Kinds() {
		if d := m.timeout(kind); d != 0 {
			own[kind] = d
		}
	}
	return own
}

// timeout returns the kind's own timeout; 0 means none. Where another Mux handles
// the kind within this one, that one's counts.
func (m *Mux) timeout(kind string) time.Duration {
	r, _ := m.route(kind)
	if inner, ok := As[*Mux](r.handler); ok && r.timeout == 0 {
		return inner.timeout(kind)
	}
	return r.timeout
}
