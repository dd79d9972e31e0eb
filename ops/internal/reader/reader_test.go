package reader_test

import (
	"context"
	"errors"
	"testing"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/ops/internal/reader"
	"github.com/errandhq/errand/queue"
)

// forgetful is a backend that fails to list the paused kinds at first. It counts the calls.
type forgetful struct {
	*memory.Queue
	asked int
}

var errForgotten = errors.New("forgotten")

func (f *forgetful) PausedKinds(context.Context) ([]string, error) {
	if f.asked++; f.asked == 1 {
		return nil, errForgotten
	}
	return []string{"email"}, nil
}

// TestAskedOnce: the reader asks again until there is an answer, and then never again.
func TestAskedOnce(t *testing.T) {
	t.Parallel()
	backend := &forgetful{Queue: memory.New(memory.Options{})}
	r := reader.Open(backend)
	if kinds, err := r.PausedKinds(t.Context()); !errors.Is(err, errForgotten) {
		t.Errorf("at first: got %q, error %v", kinds, err)
	}
	for range 2 {
		if kinds, err := r.PausedKinds(t.Context()); err != nil || len(kinds) != 1 {
			t.Errorf("then: got %q, error %v", kinds, err)
		}
	}
	if backend.asked != 2 {
		t.Errorf("asked %d times, want 2", backend.asked)
	}
}

// bare is a backend without capabilities.
type bare struct {
	queue.Enqueuer
	queue.Consumer
}

// TestNotTold: a question that the backend cannot answer has an error of its own.
func TestNotTold(t *testing.T) {
	t.Parallel()
	q := memory.New(memory.Options{})
	r := reader.Open(bare{q, q})
	if _, err := r.Workers(t.Context()); !errors.Is(err, reader.ErrNotTold) {
		t.Errorf("workers: error %v", err)
	}
	if _, _, err := r.AuditLog(t.Context(), queue.AuditFilter{}); !errors.Is(err, reader.ErrNotTold) {
		t.Errorf("audit log: error %v", err)
	}
	if r.Inspector != nil || r.Server != nil || r.File != nil || r.Served != nil {
		t.Errorf("got %+v", r)
	}
}

// TestSettingsOnce: a server is asked once for its settings. Each check that uses them still lists
// the statement.
func TestSettingsOnce(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	s := reader.Open(q).Server
	for range 2 {
		values, err := s.Settings(t.Context())
		if err != nil || values["autovacuum"] == "" {
			t.Fatalf("settings %q, error %v", values, err)
		}
		if s.Take() == "" {
			t.Error("the statement is not listed")
		}
		db.Close() // a second statement would fail
	}
}
