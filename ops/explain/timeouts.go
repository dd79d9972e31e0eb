package explain

import (
	"context"
	"slices"
	"time"

	"github.com/errandhq/errand/ops"
	"github.com/errandhq/errand/ops/internal/reader"
)

// tooShort is how long a statement_timeout has to be for Job to think nothing of it.
const tooShort = time.Second

// whyCutShort returns the reason if a timeout may end the statements of workers, and no worker is
// known whose claims succeed. It does not know which of the roles the workers have, if any.
func whyCutShort(ctx context.Context, q *inquiry) ([]Reason, error) {
	if q.Server == nil || q.job.ScheduledAt.After(q.at) || slices.ContainsFunc(q.workers, reader.Claims) {
		return nil, nil
	}
	low, err := q.Server.TimeoutsBelow(ctx, tooShort, "statement_timeout", "transaction_timeout")
	if ok, err := q.tryOrNote(ctx, "which timeouts workers have", err); !ok || len(low) == 0 {
		return nil, err
	}
	return []Reason{{ID: "short-timeout", Level: ops.Warn,
		Verdict:  "If a worker runs, the server may end its claims and reports before they are done: " + reader.DescribeTimeouts(low) + ".",
		Evidence: []string{"no worker is known whose claims succeed", "a worker whose statements are ended has lines in its log with \"statement timeout\", or 57014"},
		Remedy:   "raise it for the role or the database to at least 5 s" + reader.ResetTimeouts(low)}}, nil
}
