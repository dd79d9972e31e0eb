package servers

import (
	"testing"
	"time"

	"github.com/errandhq/errand/lab/chaos/internal/audit"
	"github.com/errandhq/errand/queue"
)

// TestBursts counts starts beyond a rate of ten a second: three at once, and as many a tenth of a
// second later, behind an outage.
func TestBursts(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	rate := queue.Rate{Jobs: 10, Burst: 3}
	starts := []time.Time{after(0), after(0), after(0), after(100), after(100), after(100)}
	for name, c := range map[string]struct {
		outages      []audit.Fault
		calm, around int
	}{
		"no outage":       {nil, 5, 0},
		"an outage":       {[]audit.Fault{{At: after(50)}}, 3, 5},
		"after all":       {[]audit.Fault{{At: after(200)}}, 5, 5},
		"one, and before": {[]audit.Fault{{At: after(-1)}, {At: after(50)}}, 3, 5},
	} {
		r := &reign{siege: &siege{outages: c.outages}}
		if calm, around := r.bursts(starts, rate); calm != c.calm || around != c.around {
			t.Errorf("%s: got %d, and %d with an outage; want %d and %d", name, calm, around, c.calm, c.around)
		}
	}
	even := []time.Time{after(0), after(100), after(200), after(300)}
	if got := burst(even, rate); got != 1 {
		t.Errorf("evenly: got %d, want 1", got)
	}
}
