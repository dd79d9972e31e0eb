// Package ownkey tells a handler that enqueues a job with the Key of the job that it handles. While
// that job is not settled it holds the Key, so the new job would be a duplicate and be missed.
package ownkey

import (
	"context"
	"fmt"

	"github.com/errandhq/errand/queue"
)

type contextKey struct{}

// With returns a context for the handler of job, whose transaction settles the job after it.
func With(ctx context.Context, job *queue.Job) context.Context {
	return context.WithValue(ctx, contextKey{}, job)
}

// Check returns an error if one of jobs, which have been enqueued with ctx, is a duplicate of the
// job that ctx is for.
func Check(ctx context.Context, jobs []*queue.Job) error {
	own, ok := ctx.Value(contextKey{}).(*queue.Job)
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
