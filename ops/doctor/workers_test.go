package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/postgres"
	"github.com/errandhq/errand/backend/postgrestest"
	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// TestManyUnserved: doctor names up to five queues and kinds that nobody serves, and how many more.
func TestManyUnserved(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			for i := range 7 {
				opstest.Enqueue(t, q, queue.Job{Queue: fmt.Sprintf("queue-%d", i), ScheduledAt: opstest.Ago()})
				opstest.Enqueue(t, q, queue.Job{Queue: "q", Kind: fmt.Sprintf("kind-%d", i), ScheduledAt: opstest.Ago()})
			}
			c := opstest.Examine(t, q, doctor.Options{})["nobody-serves"]
			if want := "no worker is alive; queues with due jobs: q, queue-0, queue-1, queue-2, queue-3, and 3 more"; c.Value != want || c.Level != ops.Fail {
				t.Errorf("got %+v, want %q", c, want)
			}
			opstest.Report(t, q, driver.WorkerInfo{Name: "one", Queues: []string{"q"}, Kinds: []string{"test"}})
			c = opstest.Examine(t, q, doctor.Options{})["nobody-serves"]
			for _, want := range []string{"queue-0, queue-1, queue-2, queue-3, queue-4, and 2 more", "kind-4 in the queue q, and 2 more"} {
				if !strings.Contains(c.Value, want) || c.Level != ops.Fail {
					t.Errorf("got %+v, want %q", c, want)
				}
			}
		})
	}
}

// TestLatestSilent: a worker that has just gone silent is named before those that crashed earlier,
// and nobody is told to start again what others may have replaced.
func TestLatestSilent(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	q := opstest.Backend(t, db, postgres.Options{})
	for _, name := range []string{"dead-1", "dead-2", "dead-3", "dead-4", "dead-5", "dead-6", "stuck"} {
		w := opstest.Idle
		w.Name = name
		opstest.Report(t, q, w)
	}
	opstest.Exec(t, db, `UPDATE errand.workers SET seen_at = seen_at - CASE WHEN worker = 'stuck' THEN 20 ELSE 100 END * interval '1 second'`)
	if c := opstest.Examine(t, q, doctor.Options{})["fleet"]; !strings.Contains(c.Value, "in order: stuck (silent for ") {
		t.Errorf("fleet: %+v", c)
	}
	opstest.Exec(t, db, `DELETE FROM errand.workers WHERE worker <> 'dead-1'`)
	opstest.Enqueue(t, q, queue.Job{ScheduledAt: opstest.Ago()})
	if c := opstest.Examine(t, q, doctor.Options{})["nobody-serves"]; !strings.Contains(c.Value, "start it again, unless others have replaced it") {
		t.Errorf("nobody-serves: %+v", c)
	}
}

// TestUnreportedHolder: where a worker holds jobs and does not report itself, doctor does not say
// that there is none.
func TestUnreportedHolder(t *testing.T) {
	t.Parallel()
	for name, open := range opstest.EveryBackend {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			opstest.Enqueue(t, q, queue.Job{})
			opstest.Claim(t, q, "", time.Minute)
			opstest.Enqueue(t, q, queue.Job{ScheduledAt: opstest.Ago()})
			c := opstest.Examine(t, q, doctor.Options{})["nobody-serves"]
			if !strings.Contains(c.Value, "but w holds jobs") || !strings.Contains(c.Advice, "pool") || c.Level != ops.Fail {
				t.Errorf("got %+v", c)
			}
		})
	}
}
