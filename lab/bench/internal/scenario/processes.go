package scenario

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

var processes = Scenario{
	Name:    "processes",
	Title:   "100,000 no-op jobs, worked off by 1, 2, 4 and 8 processes together",
	Note:    harness.ClockNote,
	Cases:   []string{"1 process", "2 processes", "4 processes", "8 processes"},
	Systems: []string{"errand", "river-best", "graphile-best"},
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		errandAgainst(0.9, false, result.Throughput, "2 processes", "1 process"),
		errandAgainst(0.9, false, result.Throughput, "4 processes", "1 process"),
		errandAgainst(0.9, false, result.Throughput, "8 processes", "1 process"),
	},
	Measure: func(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
		var n int
		if _, err := fmt.Sscan(name, &n); err != nil {
			return nil, err
		}
		jobs := drainJobs
		if system.Name != result.Baseline {
			jobs /= 2 // the slower peers work on these as long as errand on all
		}
		out, err := h.Drain(ctx, harness.Drainage{System: system, Jobs: jobs, Workers: n})
		return out.Figures, err
	},
}
