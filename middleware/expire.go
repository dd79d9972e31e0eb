package middleware

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/errandhq/errand/queue"
)

// ExpiresHeader is the header of a job that [Expire] reads: the time at which the job expires, as
// [time.RFC3339Nano].
const ExpiresHeader = "errand-expires"

// Expire discards jobs that have expired before they run: such a job is dead, with
// [queue.ErrExpired]. [ExpireAt] and [ExpireAfter] say when a job expires. Other jobs run. A run
// that has begun goes on: use [Timeout] for that.
//
// The time is compared with this process's clock at the beginning of each run, a retry's included.
// If the header is not a time, the job is dead with a [*queue.InvalidError].
//
// Put Expire outside of [Tx], so that an expired job needs no transaction.
func Expire(next queue.Handler) queue.Handler {
	return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
		text, ok := job.Headers[ExpiresHeader]
		if !ok {
			return next.HandleJob(ctx, job)
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		switch {
		case err != nil:
			problem := fmt.Sprintf("%s: %.40q is not a time", ExpiresHeader, text)
			return queue.Discard(&queue.InvalidError{Field: "Headers", Problem: problem, Err: err})
		case !time.Now().Before(at):
			return queue.Discard(fmt.Errorf("%w: at %s", queue.ErrExpired, text))
		}
		return next.HandleJob(ctx, job)
	})
}

// ExpireAt makes [Expire] discard the job from that time on, instead of running it. Call it before
// Enqueue. It replaces job.Headers.
func ExpireAt(job *queue.Job, at time.Time) {
	headers := make(map[string]string, len(job.Headers)+1)
	maps.Copy(headers, job.Headers)
	headers[ExpiresHeader] = at.UTC().Format(time.RFC3339Nano)
	job.Headers = headers
}

// ExpireAfter returns a [queue.EnqueueMiddleware] that makes jobs expire d after they have become
// due, by this process's clock. It leaves jobs alone that have the header already. ExpireAfter
// panics if d is not above 0.
func ExpireAfter(d time.Duration) queue.EnqueueMiddleware {
	if d <= 0 {
		panic(fmt.Sprintf("middleware: ExpireAfter: d %v: above 0", d))
	}
	return func(next queue.Enqueuer) queue.Enqueuer {
		return encodeJobs(next, func(copied *queue.Job) error {
			if _, ok := copied.Headers[ExpiresHeader]; ok {
				return nil
			}
			due := copied.ScheduledAt
			if due.IsZero() {
				due = time.Now().Add(copied.Delay)
			}
			ExpireAt(copied, due.Add(d))
			return nil
		})
	}
}
