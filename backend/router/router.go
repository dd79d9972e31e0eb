package router

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// Other is the route of all queues that have none of their own. Its backend is the home.
const Other = "*"

// Routes are backends by the names of the queues that live on them. [Other] is required. One
// backend may have several queues.
type Routes map[string]queue.Queue

// Options configure [New]. The zero value works with one or two backends.
type Options struct {
	// Order is every backend once, the home first: a backend's place is its number in IDs. Every
	// process has to use the same order, and a new backend comes last, or stored IDs name other
	// jobs. nil is enough for the home and one backend more.
	Order []queue.Queue
	// MaxPayload is the longest payload in bytes, which no backend refuses; 0 means
	// [queue.DefaultMaxPayload].
	MaxPayload int
	// Logger gets a record when a backend fails and when it works again. nil means [slog.Default].
	Logger *slog.Logger
}

// Queue is a [queue.Queue] whose queues live on several backends. [New] makes one. It is safe for
// concurrent use, and starts no goroutine that outlives a call.
//
// Find its capabilities with [driver.As]. Those that it has methods for are there if one of its
// backends has them, and ask those that do: an ID names its backend, and a choice of jobs without
// IDs concerns all. Others are those of the home: [driver.Pauser], which pauses queues and groups
// where they live, [driver.Auditor], [driver.Scheduler], [driver.TxClaimer], [driver.TxBeginner],
// [driver.Fleet] and [driver.Statistician], and [driver.Tabled] and [driver.Served] if there is one
// backend. A transaction can change what is in the home, and nothing else: the error is otherwise a
// [*queue.InvalidError].
type Queue struct {
	options Options
	routes  map[string]*target
	targets []*target // by number
	home    *target   // targets[0]
	forward *forwarder
}

var _ queue.Queue = (*Queue)(nil)

// target is one of the backends.
type target struct {
	queue.Queue
	number int64
	health health
}

// New returns a queue of the backends in routes. The error is a [*queue.InvalidError] for a route
// without a backend or without a name, without a route for [Other], or if Order does not fit.
func New(routes Routes, o Options) (*Queue, error) {
	if o.MaxPayload < 0 {
		return nil, invalid("MaxPayload", "%d: at least 0", o.MaxPayload)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := routes.check(); err != nil {
		return nil, err
	}
	order, err := routes.order(o.Order)
	if err != nil {
		return nil, err
	}
	q := &Queue{options: o, routes: make(map[string]*target, len(routes))}
	for i, backend := range order {
		q.targets = append(q.targets, &target{Queue: backend, number: int64(i), health: health{log: o.Logger, backend: i}})
	}
	for name, backend := range routes {
		q.routes[name] = q.targets[slices.Index(order, backend)]
	}
	q.home = q.targets[0]
	q.forward = newForwarder(q)
	return q, nil
}

// check returns an error for a route that leads nowhere.
func (routes Routes) check() error {
	if isNil(routes[Other]) {
		return invalid("Routes", "no backend for %q, which has all other queues", Other)
	}
	for _, name := range slices.Sorted(maps.Keys(routes)) {
		backend := routes[name]
		job := queue.Job{Queue: name, Kind: "kind"}
		switch {
		case name == "" || name == Outbox:
			return invalid("Routes", "%q: not a queue that can be routed", name)
		case isNil(backend) || !reflect.TypeOf(backend).Comparable():
			return invalid("Routes", "the backend of %q is %T: must be a pointer that is not nil", name, backend)
		case job.Check(0) != nil:
			return job.Check(0)
		}
	}
	return nil
}

// order returns the backends by their numbers, as given or, for nil, the home and the other one.
func (routes Routes) order(given []queue.Queue) ([]queue.Queue, error) {
	order := []queue.Queue{routes[Other]}
	for _, name := range slices.Sorted(maps.Keys(routes)) {
		if !slices.Contains(order, routes[name]) {
			order = append(order, routes[name])
		}
	}
	if given == nil {
		if len(order) > 2 {
			return nil, invalid("Order", "nil, with %d backends: name them in an order that stays, the one of %q first", len(order), Other)
		}
		return order, nil
	}
	for i, backend := range given {
		if isNil(backend) || !reflect.TypeOf(backend).Comparable() || slices.Contains(given[:i], backend) {
			return nil, invalid("Order", "place %d: nil, not a pointer, or there twice", i)
		}
	}
	if len(given) == 0 || given[0] != routes[Other] || len(given) > maxBackends {
		return nil, invalid("Order", "must begin with the backend of %q, and have at most %d", Other, maxBackends)
	}
	for _, backend := range order {
		if !slices.Contains(given, backend) {
			return nil, invalid("Order", "a backend of Routes is missing: %T", backend)
		}
	}
	return slices.Clone(given), nil
}

// route returns the backend of a queue; "" means [queue.DefaultQueue].
func (q *Queue) route(name string) *target {
	if t := q.routes[cmp.Or(name, queue.DefaultQueue)]; t != nil && name != Other {
		return t
	}
	return q.home
}

// isNil reports whether a backend is nil, or a nil pointer, as a failed New leaves it.
func isNil(backend queue.Queue) bool {
	_, ok := driver.As[queue.Queue](backend)
	return !ok
}

func invalid(field, format string, args ...any) *queue.InvalidError {
	return &queue.InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
