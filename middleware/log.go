package middleware

import (
	"context"
	"log/slog"
	"time"

	"github.com/errandhq/errand/queue"
)

// Log writes a record when a job starts, at level Debug, and one when it has
// ended: Info if it is done, settled by its handler, or given back; Warn if it is
// to be tried again; Error if it is dead or its handler panicked. nil means
// [slog.Default] at the time of the call.
//
// A [queue.Worker] logs failures by itself. Log is for those who want the
// successes too, with how long they took, or records that carry what a
// [slog.Handler] finds in the context. It tells what is known where it stands: put
// it outside of what may still change the outcome, such as [Retry]. A panic
// passes through as it is.
//
// Records have the attributes job (its ID), kind, queue and attempt; at the end
// also took, error, due_in where the job is given back, and retry_in where the
// error says how long to wait ([queue.RetryAfter], [Backoff]). Payload, key and
// headers are not logged.
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
					r.broken(recover())
				}
			}()
			err := next.HandleJob(ctx, job)
			returned = true
			r.end(err)
			return err
		})
	}
}

// runLog is what the records of one run have in common.
type runLog struct {
	logger  *slog.Logger
	ctx     context.Context
	job     *queue.Job
	started time.Time
}

// end logs what the handler's error comes to.
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
		r.write(slog.LevelInfo, "errand: job given back", took, text, slog.Duration("due_in", outcome.Delay))
	case queue.Dead:
		r.write(slog.LevelError, "errand: job is dead", took, text)
	case queue.Retry:
		attrs := []slog.Attr{took, text}
		if _, said := queue.ActionOf(err); said { // otherwise the worker draws another delay
			attrs = append(attrs, slog.Duration("retry_in", outcome.Delay))
		}
		r.write(slog.LevelWarn, "errand: job failed", attrs...)
	}
}

// broken logs a handler that did not return, and lets its panic, if it is one and
// not runtime.Goexit, go on.
func (r runLog) broken(v any) {
	if v == nil {
		r.write(slog.LevelError, "errand: handler called runtime.Goexit", r.took())
		return
	}
	r.write(slog.LevelError, "errand: handler panicked", r.took(), slog.String("error", queue.ErrorText(panicError(v))))
	panic(v)
}

func (r runLog) took() slog.Attr { return slog.Duration("took", time.Since(r.started)) }

// write logs under the names that the worker's own records use.
func (r runLog) write(level slog.Level, msg string, attrs ...slog.Attr) {
	r.logger.LogAttrs(r.ctx, level, msg, append([]slog.Attr{
		slog.Int64("job", r.job.ID), slog.String("kind", r.job.Kind),
		slog.String("queue", r.job.Queue), slog.Int("attempt", r.job.Attempt),
	}, attrs...)...)
}
