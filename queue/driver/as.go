package driver

import (
	"reflect"

	"github.com/errandhq/errand/internal/check"
	"github.com/errandhq/errand/queue"
)

// As returns v as a T, usually a capability such as [Waiter]. If v is not a T, As looks in the
// value that v wraps: it follows methods Unwrap that return a [queue.Queue], a [queue.Enqueuer] or
// a [queue.Consumer], and asks a [Delegator]. ok is false if no value of the chain is a T, and for
// a v that is nil or a nil pointer. For the Mux in a handler see [queue.MuxOf].
func As[T any](v any) (t T, ok bool) {
	isAnswer := false // v is what a Delegator has returned: it may be the Delegator itself
	for !check.IsNil(v) {
		if d, isDelegator := v.(Delegator); isDelegator && !isAnswer {
			v, isAnswer = d.Delegate(reflect.TypeFor[T]()), true
			continue
		}
		isAnswer = false
		if t, ok = v.(T); ok {
			return t, true
		}
		switch u := v.(type) {
		case interface{ Unwrap() queue.Queue }:
			v = u.Unwrap()
		case interface{ Unwrap() queue.Enqueuer }:
			v = u.Unwrap()
		case interface{ Unwrap() queue.Consumer }:
			v = u.Unwrap()
		default:
			return t, false
		}
	}
	return t, false
}

// Delegator is a value that stands for several backends, and has a capability only if they have it.
type Delegator interface {
	// Delegate returns the value in which [As] looks for a type: itself, another one, or nil if it
	// does not have that capability.
	Delegate(capability reflect.Type) any
}
