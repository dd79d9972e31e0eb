package queue

import (
	"errors"
	"log/slog"
)

// The messages of failures, which failureLog counts.
const (
	msgDead      = "errand: job is dead"
	msgFailed    = "errand: job failed"
	msgReclaimed = "errand: lease expired, job reclaimed"
	msgCancelled = "errand: job cancelled"
)

// msgForeignTick is the message of a warning of FireSchedules. The gateway has the same.
const msgForeignTick = "errand: fired a tick of other time zone data"

// logOutcome logs an outcome that is not a success, unless middleware has logged it.
func (r *run) logOutcome(o Outcome) {
	if o.Err == nil {
		return
	}
	if r.isFirstUnknown(o.Err) {
		r.Logger.Warn("errand: the Mux has no handler for this kind, job released; the worker claims every kind, "+
			"because it cannot find the Mux: wrap it with queue.Chain, or give its wrapper an Unwrap method",
			append(jobAttrs(o.Job), "error", ErrorText(o.Err), "due_in", o.Delay)...)
		return
	}
	if isLogged(o) {
		return
	}
	r.failures.writeOutcome(o)
}

// writeOutcome logs an outcome that is not a success, with attrs besides those of its job.
func (l *failureLog) writeOutcome(o Outcome, attrs ...any) {
	switch o.Action {
	case Dead:
		l.write(slog.LevelError, msgDead, o.Job, o.Err, attrs...)
	case Retry:
		l.write(slog.LevelWarn, msgFailed, o.Job, o.Err, append(attrs, "retry_in", o.Delay)...)
	case Cancel:
		l.log.Info(msgCancelled, append(append(jobAttrs(o.Job), "error", ErrorText(o.Err)), attrs...)...)
	case Release:
		l.log.Debug("errand: job released", append(append(jobAttrs(o.Job), "error", ErrorText(o.Err), "due_in", o.Delay), attrs...)...)
	}
}

// logStopping logs for how many handlers the worker waits, if there are any, and for how long at
// most.
func (r *run) logStopping() {
	r.mu.Lock()
	handlers := r.held.busy
	r.mu.Unlock()
	if handlers > 0 {
		r.Logger.Info("errand: worker shuts down, waits for its handlers", "handlers", handlers, "grace", r.Grace)
	}
}

// logReleased logs how many jobs were released because the worker stops.
func (r *run) logReleased() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.interrupted > 0 || r.unstarted > 0 {
		r.Logger.Info("errand: jobs released at shutdown", "interrupted", r.interrupted, "unstarted", r.unstarted)
	}
}

// isLogged reports whether middleware has logged this outcome (see Logged).
func isLogged(o Outcome) bool {
	l, ok := errors.AsType[*logged](o.Err)
	return ok && l.action == o.Action && l.delay == o.Delay
}

// writeReclaimed logs a job that was reclaimed, with attrs besides those of the job.
func (l *failureLog) writeReclaimed(job *Job, attrs ...any) {
	switch {
	case job.LastError == ReclaimedCancelled:
		l.log.Info(msgCancelled, append(append(jobAttrs(job), "error", job.LastError), attrs...)...)
	case isLastAttempt(job):
		l.write(slog.LevelError, msgDead, job, crashed(job.LastError), attrs...)
	default:
		l.write(slog.LevelWarn, msgReclaimed, job, crashed(job.LastError), attrs...)
	}
}

// isFirstUnknown reports whether err is the first error with which a Mux has released a job of its
// kind.
func (r *run) isFirstUnknown(err error) bool {
	kind, ok := errors.AsType[unknownKind](err)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unknown[kind] {
		return false
	}
	r.unknown[kind] = true
	return true
}

func logLost(log *slog.Logger, job *Job) {
	log.Warn("errand: lease lost, the outcome of this run is not recorded", jobAttrs(job)...)
}

// jobAttrs returns the attributes that identify a job. They contain nothing of its payload.
func jobAttrs(job *Job) []any {
	return []any{"job", job.ID, "kind", job.Kind, "queue", job.Queue, "attempt", job.Attempt}
}
