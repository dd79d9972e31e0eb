package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/explain"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestExplainRefused: explain says that a job's handler has returned if the database refuses its
// outcome, also after the job was cancelled, and doctor names the worker.
func TestExplainRefused(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			id, other := opstest.Enqueue(t, q, queue.Job{}), opstest.Enqueue(t, q, queue.Job{})
			holder := opstest.Claim(t, q, "", time.Minute)[0].Worker
			opstest.Claim(t, q, "", time.Minute)
			w := opstest.Idle
			w.Name, w.RefusedCount = holder, 11
			w.Refused = []driver.RefusedOutcome{{ID: id, Error: "violates constraint mine", Waited: time.Minute}}
			opstest.Report(t, q, w)
			for _, cancelled := range []bool{false, true} {
				if cancelled {
					if _, err := q.Cancel(t.Context(), nil, queue.Selection{IDs: []int64{id}}); err != nil {
						t.Fatal(err)
					}
				}
				a := opstest.Explain(t, q, explain.Question{ID: id})
				opstest.WantReason(t, a, "outcome-refused")
				r := a.Reasons[0]
				if strings.Contains(r.Verdict, "It was cancelled") != cancelled || !strings.Contains(r.Verdict, "has returned") ||
					!strings.Contains(r.Verdict, "refused for 1m: violates constraint mine") || !strings.Contains(r.Remedy, "constraint or a trigger") || a.Level() != ops.Fail {
					t.Errorf("cancelled %v: got %+v", cancelled, r)
				}
			}
			a := opstest.Explain(t, q, explain.Question{ID: other})
			opstest.WantReason(t, a, "running")
			if text := strings.Join(a.Reasons[0].Evidence, "\n"); !strings.Contains(text, "cannot record the outcomes of 10 other jobs") {
				t.Errorf("evidence of a job that may be refused: %q", text)
			}
			c := opstest.Examine(t, q, doctor.Options{})["fleet"]
			if c.Level != ops.Warn || !strings.Contains(c.Value, holder+" cannot record the outcomes of 11 jobs") || !strings.Contains(c.Value, "violates constraint mine") {
				t.Errorf("fleet: got %+v", c)
			}
		})
	}
}
