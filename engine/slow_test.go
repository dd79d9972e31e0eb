package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// slowLink is a backend on which the payload of each job takes d to read.
type slowLink struct {
	queue.Queue
	d time.Duration
}

func (s slowLink) Unwrap() queue.Queue { return s.Queue }

func (s slowLink) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	req.Limit = 1
	jobs, err := s.Queue.Claim(ctx, req)
	if err != nil || len(jobs) == 0 {
		return jobs, err
	}
	select {
	case <-time.After(s.d):
		return jobs, nil
	case <-ctx.Done():
	}
	delay := queue.Backoff(1)
	_, err = s.Settle(context.WithoutCancel(ctx), nil, queue.Outcome{Job: jobs[0], Action: queue.Release, Delay: delay})
	return nil, errors.Join(err, &driver.SlowError{Job: jobs[0], Delay: delay, Err: ctx.Err()})
}

// TestSlowPayloadRuns: a payload that takes longer than a claim usually may is read once claims get
// more time.
func TestSlowPayloadRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		enqueue(t, q, newTasks(1)...)
		w := start(t, engine.Worker{
			Backend: slowLink{q, 15 * time.Second},
			Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }),
		})
		time.Sleep(70 * time.Second)
		wantCount(t, q, queue.StatusCompleted, 1)
		w.stop()
	})
}

// onceSlow is a backend whose first claim meets a slow payload. It tells how long each later claim
// may take.
type onceSlow struct {
	queue.Queue
	delay  time.Duration
	limits []time.Duration
}

func (o *onceSlow) Unwrap() queue.Queue { return o.Queue }

func (o *onceSlow) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	deadline, _ := ctx.Deadline()
	o.limits = append(o.limits, time.Until(deadline))
	if len(o.limits) == 1 {
		return nil, &driver.SlowError{Job: newTask(1), Delay: o.delay, Err: context.DeadlineExceeded}
	}
	return o.Queue.Claim(ctx, req)
}

// TestSlowTimeEnds: claims have more time only until the slow job has come again. A claim that the
// network swallows later is given up as soon as without it.
func TestSlowTimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &onceSlow{Queue: newQueue(t, 0), delay: 30 * time.Second}
		w := start(t, engine.Worker{
			Backend: o,
			Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }),
		})
		time.Sleep(2 * time.Minute)
		w.stop()
		first, second, last := o.limits[0], o.limits[1], o.limits[len(o.limits)-1]
		if second != 2*first || last != first {
			t.Errorf("claims may take %v, %v after a slow payload, and %v at the end; want twice the first, and the first", first, second, last)
		}
	})
}

// slowJob is a backend on which the payload of the job with ID 1 takes d to read, and those of
// others no time.
type slowJob struct {
	queue.Queue
	d time.Duration
}

func (s slowJob) Unwrap() queue.Queue { return s.Queue }

func (s slowJob) Claim(ctx context.Context, req queue.ClaimRequest) ([]*queue.Job, error) {
	jobs, err := s.Queue.Claim(ctx, req)
	if err != nil || len(jobs) == 0 || jobs[0].ID != 1 {
		return jobs, err
	}
	select {
	case <-time.After(s.d):
		return jobs, nil
	case <-ctx.Done():
	}
	delay := queue.Backoff(jobs[0].Attempt + 1)
	for i, job := range jobs {
		o := queue.Outcome{Job: job, Action: queue.Release}
		if i == 0 {
			o.Delay = delay
		}
		if _, err := s.Settle(context.WithoutCancel(ctx), nil, o); err != nil {
			return nil, err
		}
	}
	return nil, &driver.SlowError{Job: jobs[0], Delay: delay, Err: ctx.Err()}
}

// TestSlowPayloadAmongOthers: a payload that takes longer than a claim usually may is read also if
// quick jobs come all the while, and their claims succeed.
func TestSlowPayloadAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		enqueue(t, q, newTasks(1)...)
		isDone := false
		w := start(t, engine.Worker{
			Backend: slowJob{q, 15 * time.Second},
			Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
				if job.ID == 1 {
					isDone = true
				}
				return nil
			}),
		})
		for range 5 * 60 {
			enqueue(t, q, newTasks(1)...)
			time.Sleep(time.Second)
		}
		w.stop()
		if !isDone {
			t.Error("the slow job has not run within five minutes")
		}
	})
}
