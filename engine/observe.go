package engine

import (
	"log/slog"
	"slices"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// eventOf returns the event of a recorded outcome.
func eventOf(o queue.Outcome, took time.Duration) queue.Event {
	e := queue.Event{Job: o.Job, Err: o.Err, Took: took}
	switch o.Action {
	case queue.Done:
		e.Type = queue.EventCompleted
	case queue.Retry:
		e.Type, e.Delay = queue.EventRetried, max(o.Delay, 0)
	case queue.Dead:
		e.Type = queue.EventDead
	case queue.Release:
		e.Type, e.Delay = queue.EventReleased, max(o.Delay, 0)
	case queue.Cancel:
		e.Type = queue.EventCancelled
	}
	return e
}

// eventsOf returns the events of a batch that Settle has recorded, except for the lost jobs.
func eventsOf(batch []*heldJob, lost []*queue.Job) []queue.Event {
	events := make([]queue.Event, 0, len(batch))
	for _, h := range batch {
		if slices.Contains(lost, h.job) {
			events = append(events, queue.Event{Type: queue.EventLost, Job: h.job, Err: queue.ErrLost, Took: h.took})
			continue
		}
		events = append(events, eventOf(h.outcome, h.took))
	}
	return events
}

// reclaimedEvent returns the event of a job that this worker has reclaimed.
func reclaimedEvent(job *queue.Job) queue.Event {
	e := queue.Event{Type: queue.EventRetried, Job: job, Err: crashed(job.LastError)}
	switch {
	case job.LastError == driver.ReclaimedCancelled:
		e.Type = queue.EventCancelled
	case isLastAttempt(job):
		e.Type = queue.EventDead
	}
	return e
}

// lostEvents returns the events of jobs that were lost before they were started.
func lostEvents(jobs []*queue.Job) (events []queue.Event) {
	for _, job := range jobs {
		events = append(events, queue.Event{Type: queue.EventLost, Job: job, Err: queue.ErrLost})
	}
	return events
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
