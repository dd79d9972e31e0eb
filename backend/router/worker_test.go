package router_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
)

// work runs a worker of both queues until the returned function is called. It loses no job.
func (q two) work(t *testing.T, handle queue.HandlerFunc) (stop func()) {
	observe := func(e queue.Event) {
		if e.Type == queue.EventLost {
			t.Errorf("job %d of queue %q is lost", e.Job.ID, e.Job.Queue)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- engine.Worker{Backend: q, Queues: []string{"mail", "clicks"}, Handler: handle, Logger: quiet, Observe: observe}.Run(ctx)
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// TestDown: while a backend fails or hangs, the other one's jobs are claimed, keep their leases and
// are settled. Jobs of the one that fails are settled when it works again.
func TestDown(t *testing.T) {
	for name, breakIt := range map[string]func(f *faulty, isBroken bool){
		"fails": func(f *faulty, isBroken bool) { f.isDown.Store(isBroken) },
		"hangs": func(f *faulty, isBroken bool) { f.hangs.Store(isBroken) },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testDown(t, breakIt) }) })
	}
}

func testDown(t *testing.T, breakIt func(f *faulty, isBroken bool)) {
	q := newTwo(t)
	var lost, short, long, clicks atomic.Int64
	stop := q.work(t, func(ctx context.Context, job *queue.Job) error {
		switch {
		case job.Queue == "clicks":
			time.Sleep(10 * time.Second)
			clicks.Add(1)
		case string(job.Payload) == "0":
			select {
			case <-ctx.Done():
				lost.Add(1)
			case <-time.After(5 * time.Minute): // many leases
				long.Add(1)
			}
		default:
			short.Add(1)
		}
		return nil
	})
	enqueue(t, q, nil, job("mail", 0), job("clicks", 0))
	time.Sleep(time.Second)
	breakIt(q.clicks, true)
	for i := range 240 {
		enqueue(t, q, nil, job("mail", i+1))
		time.Sleep(time.Second)
	}
	if n := short.Load(); n < 230 {
		t.Errorf("jobs of the other backend that ran in 240 s: got %d, want at least 230", n)
	}
	if n := q.completed(t, q.home); n < 230 {
		t.Errorf("of which were settled: got %d, want at least 230", n)
	}
	breakIt(q.clicks, false)
	time.Sleep(2 * time.Minute)
	if long.Load() != 1 || lost.Load() != 0 {
		t.Errorf("the long job of the other backend: done %d times, lost %d times; want 1 and 0", long.Load(), lost.Load())
	}
	if n := q.completed(t, q.clicks); n != 1 || clicks.Load() != 1 {
		t.Errorf("jobs of the backend that failed: %d runs, %d settled; want 1 and 1", clicks.Load(), n)
	}
	stop()
}

func (q two) completed(t *testing.T, f *faulty) (n int64) {
	t.Helper()
	counts, err := f.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Status == queue.StatusCompleted && c.Queue != "errand-outbox" {
			n += c.Jobs
		}
	}
	return n
}

// teller is a backend that reclaims jobs by itself, and tells of one that is dead.
type teller struct {
	queue.Queue
	dead chan *queue.Job
}

func (b *teller) Deaths(context.Context, []string) (jobs []*queue.Job, err error) {
	select {
	case j := <-b.dead:
		return []*queue.Job{j}, nil
	default:
		return nil, nil
	}
}

// TestDeaths: a worker's OnDead is called for what a backend has reclaimed that reclaims by itself,
// although the home leaves that to its workers.
func TestDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &teller{newFaulty(), make(chan *queue.Job, 1)}
		q := route(t, router.Routes{"*": newFaulty(), "clicks": other}, router.Options{Logger: quiet})
		crashed := job("clicks", 1)
		crashed.ID, crashed.Attempt, crashed.MaxAttempts = 7, 1, 1
		other.dead <- crashed
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var dead []int64
		err := engine.Worker{
			Backend: q, Queues: []string{"clicks"}, Logger: quiet,
			Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil }),
			OnDead:  func(_ context.Context, j *queue.Job, _ error) { dead = append(dead, j.ID) },
		}.Run(ctx)
		if err != nil || len(dead) != 1 || dead[0] != idSpan+7 {
			t.Errorf("OnDead: called for %v, error %v; want job %d", dead, err, int64(idSpan+7))
		}
	})
}

// TestClaimBesideHanging: a claim that has jobs of one backend does not wait for another one that
// hangs, longer than a small part of the lease or a second.
func TestClaimBesideHanging(t *testing.T) {
	for _, c := range []struct{ lease, want time.Duration }{
		{2 * time.Second, 200 * time.Millisecond}, {time.Minute, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newTwo(t)
			q.clicks.hangs.Store(true)
			enqueue(t, q, nil, job("mail", 1))
			ctx, cancel := context.WithTimeout(t.Context(), c.lease/2)
			defer cancel()
			began := time.Now()
			jobs, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"mail", "clicks"}, Limit: 2, Lease: c.lease, Worker: "w"})
			if err != nil || len(jobs) != 1 || time.Since(began) > c.want {
				t.Errorf("lease %v: got %d jobs after %v, error %v; want 1 within %v", c.lease, len(jobs), time.Since(began), err, c.want)
			}
		})
	}
}
