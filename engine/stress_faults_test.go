package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// faulty is the memory queue, whose calls fail at random, before or after they have done their
// work.
type faulty struct {
	*queuetest.Queue
	works atomic.Bool // from now on, no call fails
}

// happens reports true in so many of a hundred calls.
func (f *faulty) happens(percent int) bool {
	return rand.IntN(100) < percent && !f.works.Load()
}

// delay makes a call that may take time.
func (f *faulty) delay(ctx context.Context, work func() error) error {
	if f.happens(20) {
		sleepUntil(ctx, time.Duration(rand.Int64N(int64(2*time.Second))))
	}
	return f.call(ctx, work)
}

// call makes a call that may fail before its work, or seem to have failed.
func (f *faulty) call(ctx context.Context, work func() error) error {
	if f.happens(10) || ctx.Err() != nil {
		return errDown
	}
	if err := work(); err != nil || !f.happens(10) {
		return err
	}
	return errDown
}

func (f *faulty) Claim(ctx context.Context, req queue.ClaimRequest) (jobs []*queue.Job, err error) {
	err = f.delay(ctx, func() (err error) { jobs, err = f.Queue.Claim(ctx, req); return err })
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

func (f *faulty) Extend(ctx context.Context, lease time.Duration, jobs ...*queue.Job) (lost, asked []*queue.Job, err error) {
	err = f.delay(ctx, func() (err error) { lost, asked, err = f.Queue.Extend(ctx, lease, jobs...); return err })
	return lost, asked, err
}

func (f *faulty) Settle(ctx context.Context, db queue.DB, outcomes ...queue.Outcome) (lost []*queue.Job, err error) {
	var locked []*queue.Job
	if f.happens(10) {
		locked = append(locked, outcomes[0].Job)
		outcomes = outcomes[1:]
	}
	err = f.call(ctx, func() (err error) { lost, err = f.Queue.Settle(ctx, db, outcomes...); return err })
	if err == nil && locked != nil {
		err = &driver.LockedError{Jobs: locked, Err: errDown}
	}
	return lost, err
}

// answerAtRandom handles a job in one of all ways.
func (f *faulty) answerAtRandom(ctx context.Context, job *queue.Job) error {
	takes := time.Duration(rand.Int64N(int64(4 * time.Second)))
	if f.happens(10) {
		time.Sleep(takes) // and ignores that its context ends
	} else {
		sleepUntil(ctx, takes)
	}
	if ctx.Err() != nil && f.happens(80) {
		return context.Cause(ctx)
	}
	switch again := time.Duration(rand.Int64N(int64(time.Minute))); rand.IntN(12) {
	case 0:
		return queue.Discard(errPlain)
	case 1, 2:
		return queue.RetryAfter(again, errPlain)
	case 3:
		return queue.Snooze(again)
	case 4:
		panic("boom")
	case 5:
		runtime.Goexit()
	case 6:
		if lost, err := f.Queue.Settle(ctx, nil, queue.Outcome{Job: job}); err == nil && len(lost) == 0 {
			return queue.ErrSettled
		}
		return errPlain
	}
	return nil
}

// TestStressFaults: calls fail, answers are late or lost, and jobs are cancelled, paused and locked
// at random. Once that ends, each job ends, none has ended twice, and the workers stop in order.
func TestStressFaults(t *testing.T) {
	extent.Long(t)
	for range 5 {
		synctest.Test(t, stress)
	}
}

func stress(t *testing.T) {
	const n = 400
	q := &faulty{Queue: newQueue(t, 0)}
	for i := range n {
		job := newTask(i)
		job.Kind, job.MaxAttempts = fmt.Sprintf("k%d", i%3), 3+i%3
		enqueue(t, q, job)
	}
	mux := queue.NewMux()
	for _, kind := range []string{"k0", "k1", "k2"} {
		mux.Handle(kind, queue.HandlerFunc(q.answerAtRandom))
	}
	var seen events
	var workers []*running
	for range 2 {
		workers = append(workers, start(t, engine.Worker{Backend: q, Handler: mux, Concurrency: 8, Lease: 4 * time.Second, Poll: time.Minute,
			Timeout: 3 * time.Second, Observe: seen.add, OnDead: func(ctx context.Context, _ *queue.Job, _ error) { sleepUntil(ctx, time.Second) }}))
	}
	for range 100 {
		time.Sleep(time.Duration(rand.Int64N(int64(4 * time.Second))))
		which := queue.Selection{IDs: []int64{rand.Int64N(n) + 1}}
		if _, err := q.Cancel(t.Context(), nil, which); err != nil {
			t.Error(err)
		}
		if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "k1"}, q.happens(50)); err != nil {
			t.Error(err)
		}
	}
	q.works.Store(true)
	if _, err := q.Pause(t.Context(), nil, queue.Target{Kind: "k1"}, false); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Hour)
	counts, err := q.Counts(t.Context())
	if err != nil {
		t.Error(err)
	}
	ended := int64(0)
	for _, c := range counts {
		switch c.Status {
		case queue.StatusCompleted, queue.StatusDead, queue.StatusCancelled:
			ended += c.Jobs
		}
	}
	if ended != n {
		t.Errorf("%d of %d jobs have ended: %+v", ended, n, counts)
	}
	for _, w := range workers {
		w.stop()
	}
	ends := make(map[int64]int)
	for _, e := range seen.all {
		switch e.Type {
		case queue.EventCompleted, queue.EventDead, queue.EventCancelled:
			if ends[e.Job.ID]++; ends[e.Job.ID] > 1 {
				t.Errorf("job %d has ended twice, now %s", e.Job.ID, e.Type)
			}
		}
	}
}
