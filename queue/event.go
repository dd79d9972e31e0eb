package queue

import (
	"encoding/json"
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
	// EventCompleted: the job is completed. If its handler has answered [ErrSettled], the worker
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

// Event is something that has happened to a job in this process. See [engine.Worker].Observe.
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
