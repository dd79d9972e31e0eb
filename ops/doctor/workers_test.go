package doctor_test

import (
	"fmt"
	"strings"
	"testing"

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
