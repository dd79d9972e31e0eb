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
// A [Worker] finds a Mux that is its Handler, that is within a [Chain], or that a handler returns
// from a method Unwrap() queue.Handler. The worker then claims only the kinds that are registered
// when Run begins. So old workers leave the jobs of a new version alone during a rolling deploy. A
// worker cannot find a Mux within a function. It then claims every kind, and logs a warning when
// the Mux releases a job of an unknown kind.
type Mux struct {
	mu     sync.RWMutex
	routes map[string]route
	served served
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

// handlers returns the handlers of all kinds.
func (m *Mux) handlers() (all []Handler) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, r := range m.routes {
		all = append(all, r.handler)
	}
	return all
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

// timeouts returns the Timeout of each kind that has one.
func (m *Mux) timeouts() map[string]time.Duration {
	own := make(map[string]time.Duration)
	for _, kind := range m.Kinds() {
		if d := m.timeout(kind); d != 0 {
			own[kind] = d
		}
	}
	return own
}

// timeout returns the Timeout of a kind, or 0. If the kind's handler is itself a Mux and the kind
// has no Timeout here, timeout asks the inner Mux.
func (m *Mux) timeout(kind string) time.Duration {
	r, _ := m.route(kind)
	if inner, ok := As[*Mux](r.handler); ok && r.timeout == 0 {
		return inner.timeout(kind)
	}
	return r.timeout
}

// queueOf returns the Queue of a kind, or "". Like timeout, it asks an inner Mux.
func (m *Mux) queueOf(kind string) string {
	r, _ := m.route(kind)
	if inner, ok := As[*Mux](r.handler); ok && r.queue == "" {
		return inner.queueOf(kind)
	}
	return r.queue
}

// served is which queues the running workers of a Mux serve.
type served struct {
	mu      sync.Mutex
	workers map[string]int  // by queue: how many workers serve it
	warned  map[string]bool // the queues of which a worker has warned
}

// serve notes that a worker serves the queues until it calls end.
func (s *served) serve(queues []string) (end func()) {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.workers == nil {
			s.workers, s.warned = make(map[string]int), make(map[string]bool)
		}
		for _, queue := range queues {
			s.workers[queue] += n
		}
	}
	add(+1)
	return func() { add(-1) }
}

// takeUnserved returns the kinds, by their queue, whose queue no worker serves, except for queues
// that it has returned before.
func (m *Mux) takeUnserved() map[string][]string {
	unserved := make(map[string][]string)
	m.served.mu.Lock()
	defer m.served.mu.Unlock()
	for _, kind := range m.Kinds() {
		if queue := m.queueOf(kind); queue != "" && m.served.workers[queue] == 0 && !m.served.warned[queue] {
			unserved[queue] = append(unserved[queue], kind)
		}
	}
	for queue := range unserved {
		m.served.warned[queue] = true
	}
	return unserved
}

// unservedAfter is how long a worker waits for the other workers of its process to start: a program
// may start them one after the other, each when the one before is ready.
const unservedAfter = 30 * time.Second

// warnUnserved logs the kinds whose jobs go to queues that no worker with the same Mux serves. A
// worker of a different process may serve them, so this is no error. Of several workers only one
// warns of a queue. It leaves out kinds without a Queue: their jobs go to the default queue only if
// the code that enqueues names no other, which the worker cannot know.
func (r *run) warnUnserved(ctx context.Context) {
	mux, ok := As[*Mux](r.Handler)
	if !ok {
		return
	}
	defer mux.served.serve(r.Queues)()
	if sleep(ctx, unservedAfter) {
		kinds := mux.takeUnserved()
		for _, queue := range slices.Sorted(maps.Keys(kinds)) {
			r.unnamed.Warn("errand: the Mux handles kinds whose jobs go to a queue that no worker of it serves in this process; they do not run here",
				"queue", queue, "kinds", kinds[queue])
		}
	}
	<-ctx.Done()
}
