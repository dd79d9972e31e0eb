package queue

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// unknownKindDelay is how long a job that reached a Mux without a handler for it
// waits before another worker may look at it.
const unknownKindDelay = 10 * time.Second

// Mux is a Handler that passes each job to the handler of its kind. A [Worker]
// whose handler is a Mux, by itself or within a [Chain], claims only the kinds
// that are registered when Run begins: in a rolling deploy the old workers leave
// the new version's jobs alone. Make one with [NewMux]. It is safe for
// concurrent use.
type Mux struct {
	mu     sync.RWMutex
	routes map[string]route
}

type route struct {
	handler Handler
	timeout time.Duration
	place   string
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{routes: make(map[string]route)} }

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
	m.routes[kind] = route{handler: h, timeout: timeout, place: place}
}

// HandleJob passes the job on. A job of an unknown kind, which a Worker does not
// claim for a Mux that it can see, is given back without costing an attempt.
func (m *Mux) HandleJob(ctx context.Context, job *Job) error {
	m.mu.RLock()
	r, ok := m.routes[job.Kind]
	m.mu.RUnlock()
	if !ok {
		return snooze(unknownKindDelay, fmt.Errorf("queue: no handler for kind %q", job.Kind))
	}
	return r.handler.HandleJob(ctx, job)
}

// Kinds lists the registered kinds in alphabetical order.
func (m *Mux) Kinds() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	kinds := make([]string, 0, len(m.routes))
	for k := range m.routes {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// timeouts returns the kinds that have a timeout of their own.
func (m *Mux) timeouts() map[string]time.Duration {
	m.mu.RLock()
	defer m.mu.RUnlock()
	own := make(map[string]time.Duration)
	for k, r := range m.routes {
		if r.timeout != 0 {
			own[k] = r.timeout
		}
	}
	return own
}
