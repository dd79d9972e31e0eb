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
	// idsAtOnce is how many IDs of chosen jobs one request has.
	idsAtOnce = 1000
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
	for _, part := range partsOf(which) {
		for isMore := true; isMore; {
			var out wire.CancelAnswer
			c := call{operation: "cancel", method: http.MethodPost, path: "/v1/cancel", in: wire.Selection(part), out: &out, wait: cancelTime}
			if err := q.do(ctx, c); err != nil {
				return n, err
			}
			n += out.Jobs
			isMore = out.More
		}
	}
	return n, nil
}

// partsOf returns a choice of jobs in parts of one request each.
func partsOf(which queue.Selection) (parts []queue.Selection) {
	if which.IDs == nil {
		return []queue.Selection{which}
	}
	for ids := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(which.IDs))), idsAtOnce) {
		which.IDs = ids
		parts = append(parts, which)
	}
	return parts
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
