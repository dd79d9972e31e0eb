package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/queue"
)

// DedupStore remembers the keys whose effects have happened. [MemoryDedup] and [SQLDedup] are two.
type DedupStore interface {
	// Once calls f, unless a call of f for the same key has succeeded within its window. ran
	// reports whether it called f; err is f's error or the store's own. While f runs for a key,
	// another call for that key waits, or returns [queue.Snooze]. If f fails or panics, the key
	// stays free. Once may be called concurrently.
	Once(ctx context.Context, key string, window time.Duration, f func(context.Context) error) (ran bool, err error)
}

// Dedup runs the handler once for each key and window. If a job with the same key was handled
// within the window, the job is done without being run. A failed run is not remembered, so the job
// is retried. [queue.Job].Key keeps a second live job from being written; Dedup covers the time
// after the first has ended, and jobs that are delivered twice.
//
// key returns a job's key. A nil key means the job's kind and Key. A job whose key is "" always
// runs.
//
// How strong the guarantee is depends on the store. [SQLDedup] stands inside of [Tx] and remembers
// in the transaction of the effect. [MemoryDedup] knows this process only and stands outside of Tx.
// In the wrong place, each returns an error.
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
			var settled error // for the store, a handler that has settled its job has succeeded
			failed := false
			_, err := store.Once(ctx, k, window, func(ctx context.Context) error {
				err := next.HandleJob(ctx, job)
				if errors.Is(err, queue.ErrSettled) {
					settled, err = err, nil
				}
				failed = err != nil
				return err
			})
			switch {
			case err == nil:
				return settled
			case failed:
				return err
			}
			return handling.ChainFault(err) // the store's own
		})
	}
}

func ownKey(job *queue.Job) string {
	if job.Key == "" {
		return ""
	}
	return job.Kind + "\n" + job.Key // a kind has no line breaks
}
