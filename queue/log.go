package queue

import (
	"errors"
	"log/slog"
)

// logOutcome logs an outcome that is not a success, in one record.
func (r *run) logOutcome(o Outcome) {
	if o.Err == nil {
		return
	}
	attrs := append(jobAttrs(o.Job), "error", ErrorText(o.Err))
	switch o.Action {
	case Dead:
		r.Logger.Error("errand: job is dead", attrs...)
	case Retry:
		r.Logger.Warn("errand: job failed", append(attrs, "retry_in", o.Delay)...)
	case Release:
		attrs = append(attrs, "due_in", o.Delay)
		if r.isFirstUnknown(o.Err) {
			r.Logger.Warn("errand: the Mux has no handler for this kind, job released; the worker claims every kind, "+
				"because it cannot find the Mux: wrap it with queue.Chain, or give its wrapper an Unwrap method", attrs...)
			return
		}
		r.Logger.Debug("errand: job released", attrs...)
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
