package postgres_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestTooLongForAMessage: Enqueue refuses more than a message to the server can hold, before it
// sends anything.
func TestTooLongForAMessage(t *testing.T) {
	t.Parallel()
	if !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: takes two gigabytes of memory")
	}
	payload := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 1<<20-2)...), '"')
	list := jobs(1 << 10)
	for _, j := range list {
		j.Payload = payload
	}
	db := postgrestest.Open(t)
	q := backend(t, db, postgres.Options{})
	var bad *queue.InvalidError
	if err := q.Enqueue(t.Context(), nil, list...); !errors.As(err, &bad) || bad.Field != "Payload" {
		t.Errorf("Enqueue of a gigabyte: got %v, want an InvalidError for Payload", err)
	}
	if n := value[int](t, db, `SELECT count(*) FROM errand.jobs`); n != 0 {
		t.Errorf("%d jobs written, want 0", n)
	}
}
