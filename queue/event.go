package queue

import (
	"encoding/json"
	"log/slog"
	"slices"
	"time"
)

// EventType names what has happened to a job ([Event]). Later versions may add types: ignore types
// that you do not know.
type EventType string

// The types of events. Between EventStarted and the end of a run there may be anything: a process
// that crashes tells of nothing.
const (
	// EventStarted: the handler is about to run.
	EventStarted EventType = "started"
	// EventCompleted: the job is completed. If its handler has answered [Settled], the worker
	// believes it.
	EventCompleted EventType = "completed"
	// EventRetried: the run has failed, and the job is pending again. If the worker has reclaimed
	// the job after a crash, errors.Is(Err, [ErrLost]) is true.
	EventRetried EventType = "retried"
	// EventReleased: the job is pending again, and the run costs no attempt. Its handler has snoozed
	// or was throttled, or the worker stops, or has not started it.
	EventReleased EventType = "released"
	// EventDead: the job is dead, or held by a rule ([HoldDead]). If the worker has reclaimed the
	// job after a crash in its last attempt, errors.Is(Err, [ErrLost]) is true.
	EventDead EventType = "dead"
	// EventCancelled: the job is cancelled, as somebody has asked. If the worker has reclaimed it
	// after a crash, errors.Is(Err, [ErrLost]) is true. A job that is cancelled before a worker has
	// claimed it has no event.
	EventCancelled EventType = "cancelled"
	// EventLost: the worker no longer holds the job. The outcome of the run is not recorded, unless an
	// earlier Settle that seemed to have failed has recorded it.
	EventLost EventType = "lost"
)

// Event is something that has happened to a job in this process. See [Worker].Observe.
type Event struct {
	Type EventType `json:"type"`
	// Job is the job as its handler had it. It must not be changed. A reclaimed job has neither
	// Payload nor Headers.
	Job *Job `json:"job"`
	// Err is why the job was retried, released or cancelled, or is dead; nil if there is no reason.
	Err error `json:"-"`
	// Delay is how long after the event a retried or released job is due again.
	Delay time.Duration `json:"delay_ns,omitempty"`
	// Took is how long the handler ran, with its middleware; 0 if it did not.
	Took time.Duration `json:"took_ns,omitempty"`
}

// MarshalJSON returns the event as JSON. The text of Err is in "error".
func (e Event) MarshalJSON() ([]byte, error) {
	type fields Event // without this method
	return json.Marshal(struct {
		fields
		Error string `json:"error,omitempty"`
	}{fields(e), ErrorText(e.Err)})
}

// eventOf returns the event of a recorded outcome.
func eventOf(o Outcome, took time.Duration) Event {
	e := Event{Job: o.Job, Err: o.Err, Took: took}
	switch o.Action {
	case Done:
		e.Type = EventCompleted
	case Retry:
		e.Type, e.Delay = EventRetried, max(o.Delay, 0)
	case Dead:
		e.Type = EventDead
	case Release:
		e.Type, e.Delay = EventReleased, max(o.Delay, 0)
	case Cancel:
		e.Type = EventCancelled
	}
	return e
}

// eventsOf returns the events of a batch that Settle has recorded, except for the lost jobs. The
// caller holds r.mu, because an Extend under way may change isAsked.
func eventsOf(batch []*heldJob, lost []*Job) []Event {
	events := make([]Event, 0, len(batch))
	for _, h := range batch {
		if slices.Contains(lost, h.job) {
			events = append(events, Event{Type: EventLost, Job: h.job, Err: ErrLost, Took: h.took})
			continue
		}
		e := eventOf(h.outcome, h.took)
		if h.isAsked && (e.Type == EventRetried || e.Type == EventReleased) {
			e.Type, e.Delay = EventCancelled, 0 // the backend cancels what it is asked to cancel
		}
		events = append(events, e)
	}
	return events
}

// reclaimedEvent returns the event of a job that this worker has reclaimed.
func reclaimedEvent(job *Job) Event {
	e := Event{Type: EventRetried, Job: job, Err: crashed(job.LastError)}
	switch {
	case job.LastError == ReclaimedCancelled:
		e.Type = EventCancelled
	case isLastAttempt(job):
		e.Type = EventDead
	}
	return e
}

// lostEvents returns the events of jobs that were lost before they were started.
func lostEvents(jobs []*Job) (events []Event) {
	for _, job := range jobs {
		events = append(events, Event{Type: EventLost, Job: job, Err: ErrLost})
	}
	return events
}

// observe calls Observe for each of the events, if it is set. The caller does not hold r.mu. The
// calls are made in a goroutine of their own, which observe awaits, because an Observe that calls
// runtime.Goexit must not end a loop of the worker.
func (r *run) observe(events ...Event) {
	for r.Observe != nil && len(events) > 0 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for len(events) > 0 {
				e := events[0]
				events = events[1:]
				r.callObserve(e)
			}
		}()
		<-done
	}
}

// callObserve calls Observe, and logs its panic.
func (r *run) callObserve(e Event) {
	defer func() {
		if v := recover(); v != nil {
			r.failures.write(slog.LevelError, "errand: Observe panicked", e.Job, RecoveredPanic(v))
		}
	}()
	r.Observe(e)
}
