package driver_test

import (
	"reflect"
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// wrapped is a queue behind an Unwrap method.
type wrapped struct{ queue.Queue }

func (w wrapped) Unwrap() queue.Queue { return w.Queue }

func TestAs(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	if _, ok := driver.As[driver.Waiter](wrapped{wrapped{q}}); !ok {
		t.Error("As does not follow Unwrap")
	}
	if _, ok := driver.As[driver.Waiter](struct{ queue.Queue }{q}); ok {
		t.Error("As finds a capability that is hidden")
	}
	if _, ok := driver.As[driver.Waiter](nil); ok {
		t.Error("As finds something in nil")
	}
}

// several is a Delegator whose values cannot be compared.
type several struct {
	queue.Queue
	asks func(reflect.Type) any
}

func (s several) Delegate(capability reflect.Type) any {
	if s.asks == nil {
		return s
	}
	return s.asks(capability)
}

// TestAsDelegator: As asks a Delegator once, also one that cannot be compared, and looks in
// its answer.
func TestAsDelegator(t *testing.T) {
	q := queuetest.New(queuetest.Options{})
	for name, c := range map[string]struct {
		v    any
		want bool
	}{
		"itself":       {several{Queue: q}, false},
		"a queue":      {several{asks: func(reflect.Type) any { return q }}, true},
		"nil":          {several{Queue: q, asks: func(reflect.Type) any { return nil }}, false},
		"another one":  {several{asks: func(reflect.Type) any { return several{Queue: q} }}, false},
		"a wrapper":    {wrapped{several{asks: func(reflect.Type) any { return wrapped{q} }}}, true},
		"in a wrapper": {several{asks: func(reflect.Type) any { return wrapped{several{asks: func(reflect.Type) any { return q }}} }}, true},
	} {
		if _, ok := driver.As[driver.Waiter](c.v); ok != c.want {
			t.Errorf("%s: found %v, want %v", name, ok, c.want)
		}
	}
}
