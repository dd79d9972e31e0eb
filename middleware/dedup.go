package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

// DedupStore remembers which keys' effects have happened. Its one method may be
// called concurrently.
type DedupStore interface {
	// Once calls f, unless an f for the same key has succeeded within its window,
	// and says whether it did; err is f's, or the store's own. While one f for a key
	// is under way another call for it waits, or returns [queue.Snooze]. An f that fails, or
	// panics, leaves the key free.
	Once(ctx context.Context, key string, window time.Duration, f func(context.Context) error) (ran bool, err error)
}

// Dedup runs the handler once for each key and window: a job whose key has
// been handled within it, by whatever job, is done without being run. A job that
// failed is not remembered, so it is retried as ever. Where [queue.Job].Key keeps
// a second live job from being written, Dedup covers the time after the first has ended,
// and a job that is delivered twice.
//
// key returns a job's key; nil means its kind and its Key. Jobs for which it is
// "" are always run.
//
// What "once" is worth is the store's to say. [SQLDedup] stands inside of [Tx]: the
// remembering is part of the transaction of the effect. [MemoryDedup] knows of this
// process only, and stands outside of Tx. Either returns an error elsewhere.
//
// Dedup panics if store is nil or window is not above 0.
func Dedup(store DedupStore, window time.Duration, key func(*queue.Job) string) queue.Middleware {
	if store == nil {
		panic("middleware: Dedup: store is nil")
	}
	if window <= 0 {
		panic(fmt.Sprintf("middleware: Dedup: window %v: above 0", window))
	}
	if key == nil {
		key = ownKey
	}
	return func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			k := key(job)
			if k == "" {
				return next.HandleJob(ctx, job)
			}
			var settled error // to a store, what has settled itself has succeeded
			_, err := store.Once(ctx, k, window, func(ctx context.Context) error {
				err := next.HandleJob(ctx, job)
				if errors.Is(err, queue.Settled) {
					settled, err = err, nil
				}
				return err
			})
			if err != nil {
				return err
			}
			return settled
		})
	}
}

func ownKey(job *queue.Job) string {
	if job.Key == "" {
		return ""
	}
	return job.Kind + "\n" + job.Key // a kind has no line breaks
}
