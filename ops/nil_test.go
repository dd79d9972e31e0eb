package ops_test

import (
	"errors"
	"testing"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/queue"
)

// TestNilQueue: Doctor and Explain refuse a backend that is nil, as a failed New leaves it, too.
func TestNilQueue(t *testing.T) {
	for _, q := range []queue.Queue{nil, (*memory.Queue)(nil)} {
		_, ofDoctor := ops.Doctor(t.Context(), q, ops.Options{})
		_, ofExplain := ops.Explain(t.Context(), q, ops.Question{Queue: "q"})
		for name, err := range map[string]error{"Doctor": ofDoctor, "Explain": ofExplain} {
			if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != "Queue" {
				t.Errorf("%s of %T: got %v, want an InvalidError about Queue", name, q, err)
			}
		}
	}
}
