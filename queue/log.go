package queue

import (
	"errors"
	"log/slog"
)

// logOutcome logs what is not a success, one record each.
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
			r.Logger.Warn("errand: the Mux has no handler for this kind, job given back; the worker claims every kind, "+
				"since it cannot find the Mux: wrap it with queue.Chain, or give its wrapper an Unwrap method", attrs...)
			return
		}
		r.Logger.Debug("errand: job given back", attrs...)
	}
}

// isFirstUnknown reports whether err is the first with which a Mux has given back a
// job of its kind.
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
	log.Warn("errand: lease lost", jobAttrs(job)...)
}

// jobAttrs says which job a record is about. Its payload is nobody's business.
func jobAttrs(job *Job) []any {
	return []any{"job", job.ID, "kind", job.Kind, "queue", job.Queue, "attempt", job.Attempt}
}
