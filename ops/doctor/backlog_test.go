package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/errandhq/errand/backend/memory"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/ops/internal/opstest"
	"github.com/errandhq/errand/queue"
)

// TestPausesNotRead: the backlog says that it does not know what is paused.
func TestPausesNotRead(t *testing.T) {
	t.Parallel()
	q := opstest.Ruleless{Queue: memory.New(memory.Options{})}
	opstest.Enqueue(t, q, queue.Job{})
	time.Sleep(time.Millisecond)
	c := opstest.Examine(t, q, doctor.Options{Backlog: doctor.Bounds{Warn: 1, Fail: time.Hour}})["backlog"]
	if !strings.HasSuffix(c.Value, "; what is paused could not be read: no rules") {
		t.Errorf("backlog: %q", c.Value)
	}
}
