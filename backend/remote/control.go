package remote

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/errandhq/errand/internal/wire"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

const (
	// cancelTime is how long a gateway may take for one request to cancel jobs.
	cancelTime = 10 * time.Second
	// cancelledAtOnce is how many IDs of jobs to cancel one request has.
	cancelledAtOnce = 1000
)

// Cancel implements [driver.Canceller]. If an answer is lost, it asks the next gateway, and does
// not count the jobs that the first one has cancelled.
func (q *Queue) Cancel(ctx context.Context, db queue.DB, which queue.Selection) (n int, err error) {
	if err := which.Check(driver.Cancellable()...); err != nil {
		return 0, err
	}
	if err := refuseHandle(db); err != nil {
		return 0, err
	}
	parts := [][]int64{nil}
	if which.IDs != nil {
		parts = slices.Collect(slices.Chunk(slices.Compact(slices.Sorted(slices.Values(which.IDs))), cancelledAtOnce))
	}
	for _, part := range parts {
		which.IDs = part
		for isMore := true; isMore; {
			var out wire.CancelAnswer
			c := call{operation: "cancel", method: http.MethodPost, path: "/v1/cancel", in: wire.Selection(which), out: &out, wait: cancelTime}
			if err := q.do(ctx, c); err != nil {
				return n, err
			}
			n += out.Jobs
			isMore = out.More
		}
	}
	return n, nil
}

// Rules returns the rules of the queues that the client may use, as [driver.Ruler] does. A Queue is
// no Ruler: who sets rules has a connection to the database.
func (q *Queue) Rules(ctx context.Context) ([]queue.Rule, error) {
	var out wire.RulesAnswer
	err := q.get(ctx, "rules", "/v1/rules", &out)
	return out.Rules, err
}

// PausedKinds returns the paused kinds, as [driver.Pauser] does. A Queue is no Pauser: gateways
// leave the paused kinds out of claims.
func (q *Queue) PausedKinds(ctx context.Context) ([]string, error) {
	var out wire.RulesAnswer
	err := q.get(ctx, "paused kinds", "/v1/rules", &out)
	return out.PausedKinds, err
}
