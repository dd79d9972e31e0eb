package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

const (
	pinnedJobs    = 1_000_000
	pinnedLimit   = 20 * time.Second // for the peers
	pinnedBacklog = 2000
)

var pinned = Scenario{
	Name:    "pinned",
	Title:   "1,000,000 no-op jobs pass while an old transaction keeps the server from forgetting dead rows",
	Note:    "Jobs are enqueued, 500 a call, as they are worked off, so that some 2,000 wait. A repeatable read transaction, begun beforehand, is open all the while; free is the same without it. The peers get 20 s, and the figure is of what they had done by then. Otherwise as drain.",
	Cases:   []string{"free", "pinned"},
	Systems: []string{"errand", "river-best", "graphile-best"},
	Rounds:  1,
	Chart:   []result.Metric{result.Throughput},
	Targets: []result.Target{
		errandAgainst(0.9, false, result.Throughput, "pinned", "free"),
		errandAgainst(2, true, result.ClaimP99, "pinned", "free"),
	},
	Measure: measurePinned,
}

func measurePinned(ctx context.Context, h *harness.Harness, system peer.System, name string) ([]result.Figure, error) {
	d := harness.Drainage{System: system, Jobs: pinnedJobs, Backlog: pinnedBacklog, Spec: child.Spec{TimeClaims: true}}
	if system.Name != result.Baseline {
		d.Limit = pinnedLimit
	}
	if name == "pinned" {
		d.Before = h.Postgres.Pin
	}
	out, err := h.Drain(ctx, d)
	return out.Figures, err
}
