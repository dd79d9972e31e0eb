package workers

import (
	"testing"
	"time"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/cmd/errand/internal/clitest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestWorkerStates: STATUS says of each worker whether it does its work.
func TestWorkerStates(t *testing.T) {
	q := memory.New(memory.Options{})
	for _, w := range []driver.WorkerReport{
		{WorkerInfo: driver.WorkerInfo{Name: "draining", ClaimError: "boom"}, DrainAge: time.Minute},
		{WorkerInfo: driver.WorkerInfo{Name: "failing", ClaimError: "boom"}},
		{WorkerInfo: driver.WorkerInfo{Name: "refused", Refused: []driver.RefusedOutcome{{ID: 1, Error: "boom"}}, RefusedCount: 1}},
		{WorkerInfo: driver.WorkerInfo{Name: "live"}},
	} {
		w.Queues, w.Concurrency, w.Lease = []string{queue.DefaultQueue}, 1, time.Minute
		if err := q.ReportWorkers(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "kind"}); err != nil {
		t.Fatal(err)
	}
	d := &dburl.Database{Queue: q}
	if _, err := clitest.Claim(t.Context(), d, 1); err != nil { // for a worker that has not reported itself
		t.Fatal(err)
	}
	list, err := List(t.Context(), d, 1)
	if err != nil || len(list) != 5 {
		t.Fatalf("%d workers, %v, want 5", len(list), err)
	}
	for _, w := range list {
		want := w.Name
		if w.Name == "worker-1" {
			want = "unknown"
		}
		if got := w.state(); got != want {
			t.Errorf("%s is %s", w.Name, got)
		}
	}
}
