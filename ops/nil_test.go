package ops_test

import (
	"errors"
	"testing"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/queue"
)

// TestNilQueue: doctor and explain refuse a backend that is nil, as a failed New leaves it, too.
func TestNilQueue(t *testing.T) {
	for _, q := range []queue.Queue{nil, (*memory.Queue)(nil)} {
		_, ofDoctor := doctor.Examine(t.Context(), q, doctor.Options{})
		_, ofExplain := explain.Job(t.Context(), q, explain.Question{Queue: "q"})
		for name, err := range map[string]error{"Doctor": ofDoctor, "Explain": ofExplain} {
			if invalid, ok := errors.AsType[*queue.InvalidError](err); !ok || invalid.Field != "Queue" {
				t.Errorf("%s of %T: got %v, want an InvalidError about Queue", name, q, err)
			}
		}
	}
}
