package engine

import (
	"errors"
	"log/slog"

	"github.com/errandhq/errand/internal/upkeep"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
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

// logOutcome logs an outcome that is not a success, unless middleware has logged it.
func (r *reporting) logOutcome(o queue.Outcome) {
	if o.Err == nil {
		return
	}
	if r.isFirstUnknown(o.Err) {
		r.Logger.Warn("errand: the Mux has no handler for this kind, job released; the worker claims every kind, "+
			"because it cannot find the Mux: wrap it with queue.Chain, or give its wrapper an Unwrap method",
			append(jobAttrs(o.Job), "error", queue.ErrorText(o.Err), "due_in", o.Delay)...)
		return
	}
	if isLogged(o) {
		return
	}
	r.failures.writeOutcome(o)
}

// writeOutcome logs an outcome that is not a success, with attrs besides those of its job.
func (l *failureLog) writeOutcome(o queue.Outcome, attrs ...any) {
	switch o.Action {
	case queue.Dead:
		l.write(slog.LevelError, msgDead, o.Job, o.Err, attrs...)
	case queue.Retry:
		l.write(slog.LevelWarn, msgFailed, o.Job, o.Err, append(attrs, "retry_in", o.Delay)...)
	case queue.Cancel:
		l.log.Info(msgCancelled, append(append(jobAttrs(o.Job), "error", queue.ErrorText(o.Err)), attrs...)...)
	case queue.Release:
		l.log.Debug("errand: job released", append(append(jobAttrs(o.Job), "error", queue.ErrorText(o.Err), "due_in", o.Delay), attrs...)...)
	}
}

// isLogged reports whether middleware has logged this outcome (see Logged).
func isLogged(o queue.Outcome) bool {
	var l interface{ IsLoggedAs(queue.Outcome) bool }
	return errors.As(o.Err, &l) && l.IsLoggedAs(o)
}

// writeReclaimed logs a job that was reclaimed, with attrs besides those of the job.
func (l *failureLog) writeReclaimed(job *queue.Job, attrs ...any) {
	switch {
	case job.LastError == driver.ReclaimedCancelled:
		l.log.Info(msgCancelled, append(append(jobAttrs(job), "error", job.LastError), attrs...)...)
	case isLastAttempt(job):
		l.write(slog.LevelError, msgDead, job, crashed(job.LastError), attrs...)
	default:
		l.write(slog.LevelWarn, msgReclaimed, job, crashed(job.LastError), attrs...)
	}
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
