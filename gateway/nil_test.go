package gateway_test

import (
	"errors"
	"testing"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/gateway"
	"github.com/errandhq/errand/queue"
)

// TestNilQueue: a gateway of nothing is refused, as a failed New of a backend leaves it, too.
func TestNilQueue(t *testing.T) {
	for _, q := range []queue.Queue{nil, (*memory.Queue)(nil)} {
		_, err := gateway.New(q, gateway.Options{Tokens: []gateway.Token{{Secret: "0123456789abcdef0123456789abcdef"}}})
		if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != "Queue" {
			t.Errorf("a gateway of %T: got %v, want an InvalidError about Queue", q, err)
		}
	}
}
