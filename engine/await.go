package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// ErrNoJob is the error of [Await] for a job that the backend does not have: it was never
// committed, or it has been pruned.
var ErrNoJob = errors.New("queue: no such job")

// ErrHeld is the error of [Await] for a job that is held: it waits for a person.
var ErrHeld = errors.New("queue: the job is held")

const (
	firstAwaitPause   = 10 * time.Millisecond
	longestAwaitPause = time.Second
)

// Await waits until the job has ended, and returns its result. The caller looks at its Status, or
// calls [queue.Output]. Await asks the backend, at first after 10 ms, then less and less often, and
// each second in the end. A job that the backend deletes when it is completed (see
// [queue.Retention]) is [ErrNoJob]. A job that is held (see [queue.HoldDead]) runs again only if a
// person edits or redrives it: the error is then [ErrHeld], with its LastError in the Result. q is
// a [driver.ResultKeeper], or wraps one; otherwise the error is an [*queue.InvalidError]. Await
// returns ctx's error when ctx ends.
//
// A handler that awaits other jobs keeps its slot meanwhile. If all slots do so, nothing runs.
func Await(ctx context.Context, q queue.Enqueuer, id int64) (queue.Result, error) {
	keeper, ok := driver.As[driver.ResultKeeper](q)
	if !ok {
		return queue.Result{}, invalid("Queue", "%T keeps no results", q)
	}
	for pause := firstAwaitPause; ; pause = min(pause*3/2, longestAwaitPause) {
		r, ok, err := keeper.Result(ctx, id)
		switch {
		case err != nil:
			return r, err
		case !ok:
			return r, fmt.Errorf("%w: %d", ErrNoJob, id)
		case r.HasEnded():
			return r, nil
		case r.Status == queue.StatusHeld:
			return r, fmt.Errorf("%w: %d", ErrHeld, id)
		}
		if !upkeep.Sleep(ctx, pause) {
			return r, context.Cause(ctx)
		}
	}
}
