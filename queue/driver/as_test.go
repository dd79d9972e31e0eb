package driver_test

import (
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
