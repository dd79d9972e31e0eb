package queues

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/cmd/errand/internal/cli"
	"github.com/errandhq/errand/queue"
)

// TestKindsBehindOthers: behind a thousand newer jobs a count is one that may be too low, and says
// so where it stands: somebody asks whether the last job of a kind is gone.
func TestKindsBehindOthers(t *testing.T) {
	q := memory.New(memory.Options{})
	for _, kind := range []string{"old", "paused"} {
		if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "paused"}, true); err != nil {
		t.Fatal(err)
	}
	newer := make([]*queue.Job, cli.MaxSeen)
	for i := range newer {
		newer[i] = &queue.Job{Kind: "new"}
	}
	if err := q.Enqueue(t.Context(), nil, newer...); err != nil {
		t.Fatal(err)
	}
	list, atLeast, err := cli.SeenKinds(t.Context(), &dburl.Database{Queue: q})
	if err != nil || len(atLeast) != 1 || atLeast[0] != queue.StatusPending {
		t.Fatalf("at least: got %v, error %v; want %s", atLeast, err, queue.StatusPending)
	}
	text, err := json.Marshal(list)
	if err != nil || !strings.Contains(string(text), `{"kind":"paused","paused":true,"seen":{},"at_least":["pending"]}`) {
		t.Errorf("got %s, error %v", text, err)
	}
}
