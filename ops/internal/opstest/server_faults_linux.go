package opstest

import (
	"maps"
	"slices"
	"testing"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/doctor"
	"github.com/errandhq/errand/queue"
)

// WantOnly fails unless doctor finds that fault and no other, and returns it.
func WantOnly(t *testing.T, q queue.Queue, id string, level ops.Level) doctor.Check {
	t.Helper()
	found := Examine(t, q, doctor.Options{})
	if c, ok := found[id]; !ok || len(found) > 1 || c.Level != level {
		t.Errorf("found %v (%s), want only %s, %s", slices.Collect(maps.Keys(found)), c.Level, id, level)
	}
	return found[id]
}
