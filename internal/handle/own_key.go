package handle

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/queue"
)

// ownKey is the key of the job that a handler handles, in the context of its transaction.
type ownKey struct{}

// WithOwnKey returns a context for the handler of job, whose transaction settles the job after it.
// Until then the job holds its Key: a job that the handler enqueues with the same Key would be a
// duplicate, and be missed.
func WithOwnKey(ctx context.Context, job *queue.Job) context.Context {
	return context.WithValue(ctx, ownKey{}, job)
}

// CheckOwnKey returns an error if one of jobs, which have been enqueued with ctx, is a duplicate of
// the job that ctx is for.
func CheckOwnKey(ctx context.Context, jobs []*queue.Job) error {
	own, ok := ctx.Value(ownKey{}).(*queue.Job)
	if !ok || own.Key == "" {
		return nil
	}
	for _, j := range jobs {
		if j.Duplicate && j.ID == own.ID {
			return fmt.Errorf("not written: its Key is held by job %d, which enqueues it and is settled after its handler: "+
				"set middleware.TxOptions.SettleFirst, which frees the Key, or OnDuplicate: queue.Replace", own.ID)
		}
	}
	return nil
}
