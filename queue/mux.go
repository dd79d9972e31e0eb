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

// unknownKindDelay is how long a Mux releases a job for which it has no handler.
const unknownKindDelay = 10 * time.Second

// Mux is a [Handler] that passes each job to the handler of its kind. The zero value is an empty
// Mux, ready for use. It is safe for concurrent use, and must not be copied.
//
// An [engine.Worker] finds a Mux that is its Handler, that is within a [Chain], or that a handler
// returns from a method Unwrap() queue.Handler. The worker then claims only the kinds that are
// registered when Run begins. So old workers leave the jobs of a new version alone during a rolling
// deploy. A worker cannot find a Mux within a function. It then claims every kind, and logs a
// warning when the Mux releases a job of an unknown kind.
type Mux struct {
	mu     sync.RWMutex
	routes map[string]route
}

// route is the registration of a kind.
type route struct {
	handler Handler
	timeout time.Duration // of the Kind; 0 means the worker's, below 0 no limit
	queue   string        // of the Kind; "" if it has none of its own
	isMany  bool          // of HandleMany
	place   string        // file and line of the registration
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{} }

// Handle registers h as the handler of the kind. It panics if h is nil, if the kind's name is not
// valid, or if the kind already has a handler. Then the message names the places of both
// registrations.
func (m *Mux) Handle(kind string, h Handler) { m.register(kind, route{handler: h}) }

// register registers r.handler. Only Handle, Kind.Handle and Kind.HandleMany may call it: it
// records the place of their caller.
func (m *Mux) register(kind string, r route) {
	if err := checkName("Kind", kind); err != nil {
		panic(err)
	}
	if r.handler == nil {
		panic(fmt.Sprintf("queue: the handler of kind %q is nil", kind))
	}
	r.place = "unknown"
	if _, file, line, ok := runtime.Caller(2); ok {
		r.place = fmt.Sprintf("%s:%d", file, line)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.routes[kind]; ok {
		panic(fmt.Sprintf("queue: kind %q is handled twice: at %s and at %s", kind, old.place, r.place))
	}
	if m.routes == nil {
		m.routes = make(map[string]route)
	}
	m.routes[kind] = r
}

// HandleJob passes the job to the handler of its kind, whose context ends after the Timeout of the
// [Kind]. If the kind has no handler, the answer releases the job for ten seconds, which costs no
// attempt.
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

// Error names the kind.
func (kind unknownKind) Error() string {
	return fmt.Sprintf("queue: no handler for kind %q", string(kind))
}

// UnknownKind returns the name of the kind. The engine asks for it.
func (kind unknownKind) UnknownKind() string { return string(kind) }

// route returns the registration of a kind.
func (m *Mux) route(kind string) (r route, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, ok = m.routes[kind]
	return r, ok
}

// Kinds returns the names of the registered kinds in alphabetical order.
func (m *Mux) Kinds() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	kinds := slices.AppendSeq(make([]string, 0, len(m.routes)), maps.Keys(m.routes))
	slices.Sort(kinds)
	return kinds
}

// checkMany returns an error if a handler of HandleMany is among the Mux's handlers, or within one,
// and a handler around it holds a connection.
func (m *Mux) checkMany(isHeld bool) error {
	for _, kind := range m.Kinds() {
		r, _ := m.route(kind)
		if r.isMany && isHeld {
			return errManyInTx("Worker.Handler", kind)
		}
		if err := checkMany(r.handler, isHeld); err != nil {
			return err
		}
	}
	return nil
}

// Timeout returns the Timeout of a kind, or 0 if it has none. If the kind's handler is itself a Mux
// and the kind has no Timeout here, Timeout asks the inner Mux.
func (m *Mux) Timeout(kind string) time.Duration {
	r, _ := m.route(kind)
	if inner, ok := MuxOf(r.handler); ok && r.timeout == 0 {
		return inner.Timeout(kind)
	}
	return r.timeout
}

// QueueOf returns the Queue of a kind, or "" if it has none. Like Timeout, it asks an inner Mux.
func (m *Mux) QueueOf(kind string) string {
	r, _ := m.route(kind)
	if inner, ok := MuxOf(r.handler); ok && r.queue == "" {
		return inner.QueueOf(kind)
	}
	return r.queue
}

// MuxOf returns the Mux that h is, or that is within h: within a [Chain], or behind a method
// Unwrap() queue.Handler.
func MuxOf(h Handler) (m *Mux, ok bool) {
	for {
		switch u := h.(type) {
		case *Mux:
			return u, u != nil
		case interface{ Unwrap() Handler }:
			h = u.Unwrap()
		default:
			return nil, false
		}
	}
}
