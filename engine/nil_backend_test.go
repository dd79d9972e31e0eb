package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestNilBackend: a nil pointer in an interface, as a failed New leaves it, is no backend.
func TestNilBackend(t *testing.T) {
	t.Parallel()
	var backend *memory.Queue
	handler := queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })
	var invalid *queue.InvalidError
	if err := (engine.Worker{Backend: backend, Handler: handler}).Run(t.Context()); !errors.As(err, &invalid) || invalid.Field != "Worker.Backend" {
		t.Errorf("Run: got %v, want an InvalidError about Worker.Backend", err)
	}
	if _, ok := driver.As[driver.Waiter](backend); ok {
		t.Error("As finds a capability in a nil pointer")
	}
}
