package engine

import (
	"errors"
	"log/slog"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
)

// The messages of failures, which failureLog counts.
const (
	msgDead      = "errand: job is dead"
	msgFailed    = "errand: job failed"
	msgRefused   = "errand: outcome cannot be recorded, will retry"
	msgReclaimed = "errand: lease expired, job reclaimed"
	msgCancelled = "errand: job cancelled"
)

// crashed is the error of a job whose last run has ended because its lease has expired. It is the
// text that Reclaim has stored, and wraps ErrLost.
type crashed string

func (text crashed) Error() string { return string(text) }
func (text crashed) Unwrap() error { return queue.ErrLost }

// watchCalls returns a CallLog for the calls of that operation.
func (s *shared) watchCalls(operation string) *upkeep.CallLog {
	return upkeep.NewCallLog(s.Logger, operation)
}

// logEnd logs the end of a run that is not a success, unless middleware has logged it.
func (r *reporting) logEnd(end runEnd) {
	e := end.event
	switch {
	case e.Err == nil:
	case e.Type == queue.EventLost:
		logLost(r.Logger, e.Job)
	case r.isFirstUnknown(e.Err):
		r.Logger.Warn("errand: the Mux has no handler for this kind, job released; the worker claims every kind, "+
			"because it cannot find the Mux: wrap it with queue.Chain, or give its wrapper an Unwrap method",
			append(jobAttrs(e.Job), "error", queue.ErrorText(e.Err), "due_in", e.Delay)...)
	case !isLogged(end.outcome):
		r.failures.writeEnd(e)
	}
}

// writeEnd logs the end of a run that is not a success, with attrs besides those of its job.
func (l *failureLog) writeEnd(e queue.Event, attrs ...any) {
	switch e.Type {
	case queue.EventDead:
		l.write(slog.LevelError, msgDead, e.Job, e.Err, attrs...)
	case queue.EventRetried:
		l.write(slog.LevelWarn, msgFailed, e.Job, e.Err, append(attrs, "retry_in", e.Delay)...)
	case queue.EventCancelled:
		l.log.Info(msgCancelled, append(append(jobAttrs(e.Job), "error", queue.ErrorText(e.Err)), attrs...)...)
	case queue.EventReleased:
		l.log.Debug("errand: job released", append(append(jobAttrs(e.Job), "error", queue.ErrorText(e.Err), "due_in", e.Delay), attrs...)...)
	}
}

// isLogged reports whether middleware has logged this outcome (see Logged).
func isLogged(o queue.Outcome) bool {
	var l interface{ IsLoggedAs(queue.Outcome) bool }
	return errors.As(o.Err, &l) && l.IsLoggedAs(o)
}

// writeReclaimed logs a job that was reclaimed, with attrs besides those of the job.
func (l *failureLog) writeReclaimed(e queue.Event, attrs ...any) {
	if e.Type == queue.EventRetried {
		l.write(slog.LevelWarn, msgReclaimed, e.Job, e.Err, attrs...)
		return
	}
	l.writeEnd(e, attrs...)
}

// isFirstUnknown reports whether err is the first error with which a Mux has released a job of its
// kind.
func (r *reporting) isFirstUnknown(err error) bool {
	var of interface{ UnknownKind() string }
	if !errors.As(err, &of) {
		return false
	}
	kind := of.UnknownKind()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unknown[kind] {
		return false
	}
	r.unknown[kind] = true
	return true
}

func logLost(log *slog.Logger, job *queue.Job) {
	log.Warn("errand: lease lost, the outcome of this run is not recorded", jobAttrs(job)...)
}

// logStale logs jobs that were released because their leases are about to expire.
func (s *shared) logStale(jobs ...*queue.Job) {
	for _, job := range jobs {
		s.Logger.Warn("errand: lease is about to expire before the job was started, job released", jobAttrs(job)...)
	}
}

// jobAttrs returns the attributes that identify a job. They contain nothing of its payload.
func jobAttrs(job *queue.Job) []any {
	return []any{"job", job.ID, "kind", job.Kind, "queue", job.Queue, "attempt", job.Attempt}
}
