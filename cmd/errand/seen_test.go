package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestSeen: queues and kinds that no job has yet may be paused without a word if a live worker
// serves them or a schedule enqueues such jobs.
func TestSeen(t *testing.T) {
	t.Parallel()
	for _, b := range backends[:2] {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			database := b.url(t, t.TempDir())
			d := openWithJobs(t, database, 0)
			fleet, _ := driver.As[driver.Fleet](d.Queue)
			worker := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "w", Queues: []string{"emails"}, Kinds: []string{"mail"}}}
			if err := fleet.ReportWorkers(t.Context(), worker); err != nil {
				t.Fatal(err)
			}
			scheduler, _ := driver.As[driver.Scheduler](d.Queue)
			nightly := queue.Schedule{Name: "nightly", Spec: "0 3 * * *", Job: &queue.Job{Kind: "build", Queue: "reports"}}
			if err := scheduler.SetSchedules(t.Context(), nil, nightly); err != nil {
				t.Fatal(err)
			}
			for _, args := range []string{"queues pause emails reports", "kinds pause mail build", "queues limit reports --running 1"} {
				var out, said bytes.Buffer
				a := &app{out: &out, err: &said, getenv: func(string) string { return database }}
				if code := run(t.Context(), a, strings.Fields(args)); code != exitDone || strings.Contains(said.String(), "no ") {
					t.Errorf("%s: exit code %d, %s", args, code, &said)
				}
			}
		})
	}
}

// long is a queue with more jobs than one call looks at: of those, none has the kind that is asked
// for.
type long struct{ *memory.Queue }

func (q long) Jobs(ctx context.Context, f queue.Filter) ([]queue.Record, int64, error) {
	if f.Kind != "" {
		return nil, 50_001, nil
	}
	return q.Queue.Jobs(ctx, f)
}

// TestSeenFar: no kind is refused, or said to be that of no job, while older jobs may have it.
func TestSeenFar(t *testing.T) {
	t.Parallel()
	q := memory.New(memory.Options{})
	if err := q.Enqueue(t.Context(), nil, &queue.Job{Kind: "report.daily"}); err != nil {
		t.Fatal(err)
	}
	for _, unseen := range []bool{false, true} {
		var said bytes.Buffer
		a := &app{err: &said}
		err := a.checkKinds(t.Context(), &dburl.Database{Queue: long{q}}, []string{"report.daily", "report.dayly"}, unseen)
		const want = "errand: none of the newest jobs, no schedule and no live worker has the kind report.dayly: did you mean report.daily?\n"
		if err != nil || said.String() != want {
			t.Errorf("unseen %v: error %v, said %q, want %q", unseen, err, said.String(), want)
		}
		said.Reset()
		err = a.checkKinds(t.Context(), &dburl.Database{Queue: q}, []string{"report.dayly"}, unseen)
		if code := exitCode(t.Context(), err, true); (code == exitNothing) == unseen {
			t.Errorf("all jobs looked at, unseen %v: error %v, said %q", unseen, err, &said)
		}
	}
}
