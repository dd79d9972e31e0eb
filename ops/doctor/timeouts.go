package doctor

import (
	"context"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
)

func timeouts(ctx context.Context, d *doctor) (finding, error) {
	const shortest = 5 * time.Second
	low, err := d.Server.TimeoutsBelow(ctx, shortest, "statement_timeout", "transaction_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
	if err != nil {
		return finding{}, err
	}
	if len(low) == 0 {
		return finding{value: "none is below " + shortest.String()}, nil
	}
	return finding{ops.Warn, reader.DescribeTimeouts(low), "a busy server may end statements of workers: for the role or the database raise it to at least 5 s" + reader.ResetTimeouts(low)}, nil
}
