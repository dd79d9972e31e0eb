package engine

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/errandhq/errand/internal/handling"
	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
)

const (
	// claimTimeout bounds a claim whose answer never arrives.
	claimTimeout = 10 * time.Second
	// stuckAfter is how long after the end of its context a handler may run before the worker
	// reports it as stuck.
	stuckAfter = 5 * time.Second
	// onDeadTimeout is how long OnDead may run before its context ends. stopOnDeadTimeout is how
	// long after Grace all contexts of OnDead end. Then stopTimeout leaves time to settle.
	// stopTellingTimeout is how long after Grace the calls end that tell of dead jobs, so that there
	// is time for OnDead.
	onDeadTimeout      = 10 * time.Second
	stopOnDeadTimeout  = awaitCancelled - time.Second
	stopTellingTimeout = stopOnDeadTimeout / 2
	// maxErrorText is how many bytes of an error a report has.
	maxErrorText = 500
)

// shared is what every part of a running worker knows: the Worker's fields, and what follows from
// them. None of it changes once the loops have started, except for the last three, which have locks
// of their own.
type shared struct {
	Worker
	kinds    []string                 // the kinds to claim; nil for every kind
	timeouts map[string]time.Duration // of the kinds that have a Timeout
	started  time.Time                // when Run was called
	serving  context.Context          // Run's; once it has ended, nothing more is claimed or started
	quit     context.CancelCauseFunc  // ends serving with an error, which Run returns
	handlers context.Context          // parent of handlers' contexts: Run's values, but it never ends
	onDead   context.Context          // parent of the contexts of OnDead: ends soon after Grace
	unnamed  *slog.Logger             // Logger without the name of the worker

	failures failureLog
	outage   outage
	paused   upkeep.Pauses // the paused kinds; none if the worker claims every kind
}

// outage is when a call last failed because of the database.
type outage struct {
	mu sync.Mutex
	at time.Time
}

// begin notes that a call has just failed.
func (o *outage) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = time.Now()
}

// isWithin reports whether a call has failed within the last d.
func (o *outage) isWithin(d time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.at.IsZero() && time.Since(o.at) < d
}

func newShared(ctx context.Context, quit context.CancelCauseFunc, w Worker) *shared {
	s := &shared{
		Worker:   w,
		started:  time.Now(),
		serving:  ctx,
		quit:     quit,
		handlers: handling.WithBatches(context.WithoutCancel(ctx), w.Concurrency, ctx.Done()),
		unnamed:  w.Logger,
	}
	s.Logger = w.Logger.With("worker", w.Name)
	s.failures.log = s.Logger
	if mux, ok := queue.MuxOf(w.Handler); ok {
		s.kinds, s.timeouts = mux.Kinds(), make(map[string]time.Duration)
		for _, kind := range s.kinds {
			if own := mux.Timeout(kind); own != 0 {
				s.timeouts[kind] = own
			}
		}
	}
	return s
}

// isLastAttempt reports whether a job is in its last attempt: a crash makes it dead.
func isLastAttempt(job *queue.Job) bool { return job.Attempt >= job.MaxAttempts }

// dueAt returns when the job became due, by the backend's clock.
func dueAt(job *queue.Job) time.Time {
	if job.ScheduledAt.After(job.CreatedAt) {
		return job.ScheduledAt
	}
	return job.CreatedAt
}

// guardInterval returns the time between two checks of the held jobs.
func (s *shared) guardInterval() time.Duration { return min(s.Lease/12, stuckAfter/2) }

// endsSoon reports whether a lease may expire before the next check.
func (s *shared) endsSoon(expires, now time.Time) bool {
	return expires.Before(now.Add(2 * s.guardInterval()))
}

// longestWait returns how long a job that was expected to start within Prefetch may wait. After
// that, handlers have become slow, and other workers may have free slots.
func (s *shared) longestWait() time.Duration { return max(10*s.Prefetch, time.Second) }

// signal makes the next receive from c succeed.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// handlerContext returns the context for a handler of that kind, which ends after the Timeout of
// the kind or of the worker.
func (s *shared) handlerContext(kind string) (context.Context, context.CancelCauseFunc) {
	timeout := s.Timeout
	if own, ok := s.timeouts[kind]; ok {
		timeout = own
	}
	return cancelAfter(s.handlers, timeout)
}

// cancelAfter returns a context that ends after the timeout, or when cancel is called. A timeout of
// 0 or below means no limit.
func cancelAfter(parent context.Context, timeout time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if timeout <= 0 {
		return ctx, cancel
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	return ctx, func(cause error) { cancel(cause); stop() }
}

// reportText returns the text of an error as a report has it.
func reportText(err error) string {
	text := queue.ErrorText(err)
	return strings.ToValidUTF8(text[:min(len(text), maxErrorText)], "")
}

// ageOf returns how long ago at was: at least a nanosecond, or 0 if at is zero.
func ageOf(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(time.Since(at), 1)
}
