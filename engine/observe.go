package engine

import (
	"log/slog"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// runEnd is how a run ends. Settle gets the outcome; log, statistics, Observe and OnDead get the
// event. Nothing else says what has become of the job.
type runEnd struct {
	event     queue.Event
	outcome   queue.Outcome // unless isSettled
	isSettled bool          // the handler has settled the job itself
}

// releaseOf returns the end of a run, which took that long, whose job is released.
func releaseOf(job *queue.Job, took time.Duration) runEnd {
	o := queue.Outcome{Job: job, Action: queue.Release}
	return runEnd{event: eventOf(o, took), outcome: o}
}

// eventOf returns the event of an outcome as a backend records it: in the last attempt a retry
// makes the job dead.
func eventOf(o queue.Outcome, took time.Duration) queue.Event {
	e := queue.Event{Job: o.Job, Err: o.Err, Took: took}
	switch o.Action {
	case queue.Done:
		e.Type = queue.EventCompleted
	case queue.Retry:
		e.Type, e.Delay = queue.EventRetried, max(o.Delay, 0)
		if isLastAttempt(o.Job) {
			e.Type, e.Delay = queue.EventDead, 0
		}
	case queue.Dead:
		e.Type = queue.EventDead
	case queue.Release:
		e.Type, e.Delay = queue.EventReleased, max(o.Delay, 0)
	case queue.Cancel:
		e.Type = queue.EventCancelled
	}
	return e
}

// reclaimedEvents returns the events of jobs that Reclaim has returned.
func reclaimedEvents(jobs []*queue.Job) []queue.Event {
	events := make([]queue.Event, len(jobs))
	for i, job := range jobs {
		e := queue.Event{Type: queue.EventRetried, Job: job, Err: crashed(job.LastError)}
		switch {
		case job.LastError == driver.ReclaimedCancelled:
			e.Type = queue.EventCancelled
		case isLastAttempt(job):
			e.Type = queue.EventDead
		}
		events[i] = e
	}
	return events
}

// lostEvent returns the event of a job that the worker no longer holds, after a run that took that
// long.
func lostEvent(job *queue.Job, took time.Duration) queue.Event {
	return queue.Event{Type: queue.EventLost, Job: job, Err: queue.ErrLost, Took: took}
}

// observe calls Observe for each of the events, if it is set. The caller holds no lock. The calls
// are made in a goroutine of their own, which observe awaits, because an Observe that calls
// runtime.Goexit must not end a loop of the worker.
func (s *shared) observe(events ...queue.Event) {
	for s.Observe != nil && len(events) > 0 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for len(events) > 0 {
				e := events[0]
				events = events[1:]
				s.callObserve(e)
			}
		}()
		<-done
	}
}

// callObserve calls Observe, and logs its panic.
func (s *shared) callObserve(e queue.Event) {
	defer func() {
		if v := recover(); v != nil {
			s.failures.write(slog.LevelError, "errand: Observe panicked", e.Job, queue.RecoveredPanic(v))
		}
	}()
	s.Observe(e)
}
