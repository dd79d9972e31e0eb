package runner

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/errandhq/errand/lab/chaos/internal/harness"
	"github.com/errandhq/errand/lab/chaos/internal/scenario"
)

// TestParallel makes two scenarios wait for each other, and one be alone.
func TestParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	var under atomic.Int32 // scenarios that run now
	tiny := func(number int, name string, alone bool) scenario.Scenario {
		return scenario.Scenario{Number: number, Name: name, Alone: alone, Run: func(_ context.Context, h *harness.Harness) error {
			others := under.Add(1) - 1
			defer under.Add(-1)
			if !alone {
				both.Done()
				both.Wait()
			}
			h.Row.Check(!alone || others == 0, "alone", "%d others", others)
			return nil
		}}
	}
	rows, err := Run(t.Context(), Options{
		Scenarios: []scenario.Scenario{tiny(97, "alone", true), tiny(98, "left", false), tiny(99, "right", false)},
		Seed:      1, Short: true, Parallel: 2, Progress: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if r.Number != 97+i || !r.Pass() {
			t.Errorf("row %d: got %d, %s, %+v; want %d, passed", i, r.Number, r.Error, r.Checks, 97+i)
		}
	}
	if len(rows) != 3 {
		t.Errorf("got %d rows, want 3", len(rows))
	}
}
