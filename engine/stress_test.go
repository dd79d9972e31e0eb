package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// answering is the memory queue with a hook before each answer of Extend and Settle.
type answering struct {
	*queuetest.Queue
	extended, settled func() // called after Extend and Settle have done their work
}

func (a *answering) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	lost, asked, err = a.Queue.Extend(ctx, lease, jobs...)
	a.extended()
	return lost, asked, err
}

func (a *answering) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) ([]*queue.Job, error) {
	lost, err := a.Queue.Settle(ctx, db, outcomes...)
	a.settled()
	return lost, err
}

// TestObserveAskedWhileSettling: the answer of Extend that asks to cancel a job arrives while a
// Settle with its outcome is under way. The event says that the job is cancelled. If the event is
// made without the worker's lock, only the race detector notices. In the bubble, Settle's pause
// ends when the worker has read Extend's answer; a channel in its place would order the two for the
// detector.
func TestObserveAskedWhileSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, mayFail, isSettling := make(chan struct{}), make(chan struct{}), make(chan struct{})
		q := &answering{Queue: newQueue(t, 1)}
		q.extended = func() { close(mayFail); <-isSettling }
		q.settled = func() { close(isSettling); time.Sleep(time.Millisecond) }
		events := make(chan queue.Event, 2)
		w := start(t, engine.Worker{Backend: q, Observe: func(e queue.Event) { events <- e },
			Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error {
				close(began)
				<-mayFail
				return errPlain
			})})
		<-began
		cancelJobs(t, q, &queue.Job{ID: 1})
		<-events // started
		if e := <-events; e.Type != queue.EventCancelled || e.Delay != 0 {
			t.Errorf("got event %s with delay %v, want %s and 0", e.Type, e.Delay, queue.EventCancelled)
		}
		w.stop()
	})
}

// TestStressCancelFailing: jobs fail while others cancel them. Each ends cancelled, and has at most
// one event that ends its run.
func TestStressCancelFailing(t *testing.T) {
	const n, cancellers = 2000, 4
	q := newQueue(t, n)
	var seen events
	w := start(t, engine.Worker{Backend: q, Concurrency: 32, Observe: seen.add,
		Handler: returning(queue.RetryAfter(time.Hour, errPlain))})
	var cancelling sync.WaitGroup
	for i := range cancellers {
		cancelling.Go(func() {
			for id := int64(i + 1); id <= n; id += cancellers {
				if _, err := q.Cancel(t.Context(), nil, queue.Selection{IDs: []int64{id}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	cancelling.Wait()
	w.stop()
	wantCount(t, q, queue.StatusCancelled, n)
	ends := make(map[int64]int)
	for _, e := range seen.all {
		switch e.Type {
		case queue.EventStarted:
		case queue.EventRetried, queue.EventCancelled:
			ends[e.Job.ID]++
		default:
			t.Errorf("job %d: got event %s", e.Job.ID, e.Type)
		}
		if ends[e.Job.ID] > 1 {
			t.Errorf("job %d: the end of its run has %d events", e.Job.ID, ends[e.Job.ID])
		}
	}
}
