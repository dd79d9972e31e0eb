package scenario

import (
	"context"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/child"
	"github.com/errandhq/errand/lab/bench/internal/harness"
	"github.com/errandhq/errand/lab/bench/internal/peer"
	"github.com/errandhq/errand/lab/bench/internal/result"
)

// transactionsTime is how long transactions are made.
const transactionsTime = 4 * time.Second

var transactions = Scenario{
	Name:    "transaction",
	Title:   "a job enqueued in the application's transaction, which writes one row besides",
	Note:    "One goroutine makes the transaction in turns without and with the job, for 4 s; added is the difference of the medians. No worker runs. errand by database/sql over pgx, River and the floor by pgx itself.",
	Systems: []string{"errand", "errand-pq", "floor", "river-default"},
	Chart:   []result.Metric{result.Added},
	Targets: []result.Target{atMost(0.5, result.Added, "errand", "river-default")},
	Measure: measureTransactions,
}

func measureTransactions(ctx context.Context, h *harness.Harness, system peer.System, _ string) ([]result.Figure, error) {
	if err := h.Fresh(ctx, system); err != nil {
		return nil, err
	}
	if err := peer.InstallBusiness(ctx, h.Postgres.OwnDSN); err != nil {
		return nil, err
	}
	r, err := h.RunAlone(ctx, system, child.Spec{Part: "transact", Duration: h.Duration(transactionsTime)})
	if err != nil {
		return nil, err
	}
	if err := h.VerifyAll(ctx, system, int(r.Figures["jobs"])+child.WarmUp); err != nil {
		return nil, err
	}
	return []result.Figure{
		result.NewFigure(result.Added, r.Figures["added"]),
		result.NewFigure(result.Without, r.Figures["without"]),
		result.NewFigure(result.With, r.Figures["with"]),
	}, nil
}
