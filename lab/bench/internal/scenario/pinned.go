package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
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
		against(0.9, false, result.Throughput, "pinned", "free"),
		against(2, true, result.ClaimP99, "pinned", "free"),
	},
	measure: measurePinned,
}

func measurePinned(ctx context.Context, l *Lab, system peer.System, name string) ([]result.Figure, error) {
	d := drainage{system: system, jobs: pinnedJobs, backlog: pinnedBacklog, spec: child.Spec{TimeClaims: true}}
	if system.Name != result.Baseline {
		d.limit = pinnedLimit
	}
	if name == "pinned" {
		d.before = l.Postgres.Pin
	}
	out, err := l.drain(ctx, d)
	return out.figures, err
}
