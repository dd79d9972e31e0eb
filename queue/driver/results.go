package driver

import (
	"context"

	"github.com/errandhq/errand/queue"
)

// ResultKeeper is a backend that keeps the output and the progress of jobs, in a place of their
// own. It records the Output of an [queue.Outcome] together with the outcome, and removes both
// together with the job. Its methods may be called concurrently.
type ResultKeeper interface {
	// KeepProgress records the progress of jobs. It ignores jobs that the caller does not hold.
	KeepProgress(ctx context.Context, progress ...queue.Progress) error
	// Result returns how far the job is and what it has returned. ok is false if there is no such
	// job: it was never committed, or it has been pruned.
	Result(ctx context.Context, id int64) (r queue.Result, ok bool, err error)
}
