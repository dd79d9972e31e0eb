package explain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestBehindMany: a job of a kind is found although more jobs of other kinds wait before it than
// Explain looks at.
func TestBehindMany(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	opstest.Report(t, q, driver.WorkerInfo{Name: "w", Queues: []string{"other"}})
	opstest.Exec(t, db, `INSERT INTO errand.jobs (queue, kind, scheduled_at)
		SELECT 'q', CASE n WHEN 10001 THEN 'rare' ELSE 'test' END, now() - interval '1 hour' + n * interval '1 millisecond'
		FROM generate_series(1, 10001) AS n`)
	for _, question := range []explain.Question{{Kind: "rare"}, {Kind: "rare", Queue: "q"}} {
		a := opstest.Explain(t, q, question)
		if a.Job == nil || a.Job.Kind != "rare" || a.Reasons[0].ID != "queue-not-served" {
			t.Errorf("%+v: got %s about %+v", question, opstest.ReasonIDs(a), a.Job)
		}
	}
}

// TestManyAhead: the jobs before a job are not given as all if there are more than were looked at.
func TestManyAhead(t *testing.T) {
	t.Parallel()
	db, q := opstest.Fresh(t)
	w := driver.WorkerReport{WorkerInfo: driver.WorkerInfo{Name: "w", Queues: []string{"q"}, Concurrency: 1}, Age: time.Hour, ClaimAge: time.Second}
	w.Stats = []driver.MinuteStats{{Queue: "q", Kind: "test", Age: time.Minute, Stats: queue.Stats{Done: 600, Ran: time.Minute}}}
	if err := q.ReportWorkers(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	opstest.Exec(t, db, `INSERT INTO errand.jobs (queue, kind, priority) SELECT 'q', 'test', -1 FROM generate_series(1, 10001)`)
	r := opstest.Explain(t, q, explain.Question{ID: opstest.Enqueue(t, q, queue.Job{Queue: "q"})}).Reasons[0]
	if r.ID != "jobs-ahead" || !strings.HasPrefix(r.Verdict, "At least 10000 due jobs of the queue q come before") ||
		!strings.Contains(strings.Join(r.Evidence, "\n"), "these take at least ") {
		t.Errorf("got %+v", r)
	}
}

// endless is a backend with more pending jobs of other kinds than explain reads.
type endless struct{ *memory.Queue }

func (endless) Jobs(context.Context, queue.Filter) ([]queue.Record, int64, error) { return nil, 1, nil }

// TestNotAllLookedAt: if not all pending jobs were looked at, explain does not say that none waits.
func TestNotAllLookedAt(t *testing.T) {
	t.Parallel()
	for _, question := range []explain.Question{{Kind: "rare"}, {Kind: "rare", Queue: "q"}} {
		a := opstest.Explain(t, endless{memory.New(memory.Options{})}, question)
		opstest.WantReason(t, a, "perhaps-waits")
		if a.Level() != ops.Warn || len(a.Unknown) != 1 {
			t.Errorf("level %s, not known: %q", a.Level(), a.Unknown)
		}
	}
}
