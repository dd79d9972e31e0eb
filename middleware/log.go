package middleware

import (
	"context"
	"log/slog"
	"time"

	"github.com/errandhq/errand/queue"
)

// Log writes a record when a job starts, at level Debug, and one when the run has ended. The second
// has level Info if the job is done, settled by its handler, or released; Warn if it will be
// retried; and Error if it is dead or its handler panicked. A nil logger means [slog.Default] at
// the time of the run.
//
// A [queue.Worker] logs failures itself. Use Log to see the successes too, with their durations, or
// to log through a [slog.Handler] that reads the context. Log reports what is known at its place in
// the chain: put it outside of middleware that may change the outcome, such as [Retry]. A panic
// passes through unchanged.
//
// Records have the attributes worker (the job's holder), job (its ID), kind, queue and attempt. The
// second record also has took; error, if there is one; due_in, if the job is released; and
// retry_in, if the error sets the delay ([queue.RetryAfter], [Backoff]). Payload, key and headers
// are not logged.
func Log(logger *slog.Logger) queue.Middleware {
	return func(next queue.Handler) queue.Handler {
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			r := runLog{logger: logger, ctx: ctx, job: job, started: time.Now()}
			if logger == nil {
				r.logger = slog.Default()
			}
			r.write(slog.LevelDebug, "errand: job started")
			returned := false
			defer func() {
				if !returned {
					r.logBroken(recover())
				}
			}()
			err := next.HandleJob(ctx, job)
			returned = true
			r.end(err)
			return err
		})
	}
}

// runLog holds what the records of one run share.
type runLog struct {
	logger  *slog.Logger
	ctx     context.Context
	job     *queue.Job
	started time.Time
}

// end logs the outcome.
func (r runLog) end(err error) {
	took := r.took()
	text := slog.String("error", queue.ErrorText(err))
	outcome, ok := queue.OutcomeOf(r.ctx, r.job, err)
	if !ok {
		r.write(slog.LevelInfo, "errand: job settled by its handler", took)
		return
	}
	switch outcome.Action {
	case queue.Done:
		r.write(slog.LevelInfo, "errand: job done", took)
	case queue.Release:
		r.write(slog.LevelInfo, "errand: job released", took, text, slog.Duration("due_in", outcome.Delay))
	case queue.Dead:
		r.write(slog.LevelError, "errand: job is dead", took, text)
	case queue.Retry:
		attrs := []slog.Attr{took, text}
		if _, answered := queue.ActionOf(err); answered { // otherwise the worker draws another delay
			attrs = append(attrs, slog.Duration("retry_in", outcome.Delay))
		}
		r.write(slog.LevelWarn, "errand: job failed", attrs...)
	}
}

// logBroken logs a handler that did not return. It re-panics, unless the handler called
// runtime.Goexit.
func (r runLog) logBroken(v any) {
	if v == nil {
		r.write(slog.LevelError, "errand: handler called runtime.Goexit", r.took())
		return
	}
	r.write(slog.LevelError, "errand: handler panicked", r.took(), slog.String("error", queue.ErrorText(panicError(v))))
	panic(v)
}

func (r runLog) took() slog.Attr { return slog.Duration("took", time.Since(r.started)) }

// write logs with the keys that the worker's own records have.
func (r runLog) write(level slog.Level, msg string, attrs ...slog.Attr) {
	r.logger.LogAttrs(r.ctx, level, msg, append([]slog.Attr{
		slog.String("worker", r.job.Worker), slog.Int64("job", r.job.ID), slog.String("kind", r.job.Kind),
		slog.String("queue", r.job.Queue), slog.Int("attempt", r.job.Attempt),
	}, attrs...)...)
}
