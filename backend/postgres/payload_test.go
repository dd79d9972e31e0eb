package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestPayloadNoJSONBHolds raises MaxPayload beyond what the server can make a jsonb of: it has a
// gigabyte for 33 million values.
func TestPayloadNoJSONBHolds(t *testing.T) {
	t.Parallel()
	if !extent.Whole() {
		t.Skip("ERRAND_TESTS=whole runs it: takes some seconds, and a gigabyte")
	}
	q := backend(t, postgrestest.Open(t), postgres.Options{MaxPayload: 1 << 30})
	payload := "[" + strings.Repeat("1,", 17<<20) + "1]"
	err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "test", Payload: []byte(payload)}, &queue.Job{Kind: "test"})
	var bad *queue.InvalidError
	if !errors.As(err, &bad) || bad.Field != "Payload" {
		t.Errorf("got %.200v, want an InvalidError for Payload", err)
	}
	if got := claim(t, q, 1); len(got) != 0 {
		t.Errorf("claimed %d jobs, want none", len(got))
	}
}
