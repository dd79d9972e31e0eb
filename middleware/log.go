package middleware

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/errandhq/errand/queue"
)

// Log writes a record when a job starts, at level Debug, and one when the run has ended. The second
// has level Info if the job is done, released or cancelled, Warn if it will be retried, and Error
// if it is dead. A nil logger means [slog.Default] at the time of the run.
//
// An [engine.Worker] logs failures itself, unless Log has: then the error that Log returns says so
// ([queue.Logged]), and each failure is logged once. Use Log to see the successes too, with their
// durations, or to log through a [slog.Handler] that reads the context. Log leaves nothing out:
// 10,000 failures are 10,000 records, while the worker would count most of them. Log reports what
// is known at its place in the chain: put it outside of middleware that may change the outcome,
// such as [Retry] and [Backoff]. Otherwise the worker logs the changed outcome, too.
//
// Log makes an error of a panic, as [Recover] does, and logs its stack. It leaves runtime.Goexit to
// the worker's log.
//
// Records have the attributes worker (the job's holder), job (its ID), kind, queue and attempt. The
// second record also has took; error, if there is one; stack, after a panic; due_in, if the job is
// released; and retry_in, if it will be retried. Payload, key and headers are not logged.
//
// A job that its handler, or [Tx], has settled in its own transaction counts as done.
func Log(logger *slog.Logger) queue.Middleware {
	return func(next queue.Handler) queue.Handler {
		next = Recover(next)
		return queue.HandlerFunc(func(ctx context.Context, job *queue.Job) error {
			r := runLog{logger: logger, ctx: ctx, job: job, started: time.Now()}
			if logger == nil {
				r.logger = slog.Default()
			}
			r.write(slog.LevelDebug, "errand: job started")
			return r.end(next.HandleJob(ctx, job))
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

// end logs the outcome. It returns err, marked as logged if it is a failure.
func (r runLog) end(err error) error {
	took := slog.Duration("took", time.Since(r.started))
	outcome, ok := queue.OutcomeOf(r.ctx, r.job, err)
	if !ok {
		r.write(slog.LevelInfo, "errand: job done, in its own transaction", took)
		return err
	}
	attrs := []slog.Attr{took}
	if err != nil {
		attrs = append(attrs, slog.String("error", queue.ErrorText(err)))
	}
	if p, ok := errors.AsType[*queue.PanicError](outcome.Err); ok {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	switch outcome.Action {
	case queue.Done:
		r.write(slog.LevelInfo, "errand: job done", attrs...)
	case queue.Cancel:
		r.write(slog.LevelInfo, "errand: job cancelled", attrs...)
	case queue.Release:
		r.write(slog.LevelInfo, "errand: job released", append(attrs, slog.Duration("due_in", outcome.Delay))...)
	case queue.Dead:
		r.write(slog.LevelError, "errand: job is dead", attrs...)
	case queue.Retry:
		r.write(slog.LevelWarn, "errand: job failed", append(attrs, slog.Duration("retry_in", outcome.Delay))...)
	}
	return queue.Logged(err, outcome)
}

// write logs with the keys that the worker's own records have.
func (r runLog) write(level slog.Level, msg string, attrs ...slog.Attr) {
	r.logger.LogAttrs(r.ctx, level, msg, append([]slog.Attr{
		slog.String("worker", r.job.Worker), slog.Int64("job", r.job.ID), slog.String("kind", r.job.Kind),
		slog.String("queue", r.job.Queue), slog.Int("attempt", r.job.Attempt),
	}, attrs...)...)
}
