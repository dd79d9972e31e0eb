package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// told is what is told of the end of a run: the type of the event and its error, what the log says
// of the job, what the statistics count, and the error that OnDead gets.
type told struct{ event, log, stats, onDead string }

// TestEndsAgree: log, statistics, Observe and OnDead say the same of each way in which a run ends.
func TestEndsAgree(t *testing.T) {
	const crash = "errand: the lease of worker crashed expired"
	for _, c := range []struct {
		name string
		last bool // the run is the job's last attempt
		run  func(ctx context.Context, s *ends, job *queue.Job) error
		want told
	}{
		{"done", false, ending(nil), told{"completed <nil>", "", "done", ""}},
		{"settled by its handler", false, func(ctx context.Context, s *ends, job *queue.Job) error {
			if _, err := s.Queue.Settle(ctx, nil, queue.Outcome{Job: job}); err != nil {
				return err
			}
			return queue.ErrSettled
		}, told{"completed <nil>", "", "done", ""}},
		{"failed", false, ending(errPlain), told{"retried plain", "job failed", "failed", ""}},
		{"failed in the last attempt", true, ending(errPlain), told{"dead plain", "job is dead", "dead", "plain"}},
		{"discarded", false, ending(queue.Discard(errPlain)), told{"dead plain", "job is dead", "dead", "plain"}},
		{"retried after", false, ending(queue.RetryAfter(time.Hour, errPlain)), told{"retried plain", "job failed", "failed", ""}},
		{"retried after the last attempt", true, ending(queue.RetryAfter(time.Hour, errPlain)), told{"dead plain", "job is dead", "dead", "plain"}},
		{"snoozed", true, ending(queue.Snooze(time.Hour)), told{"released queue: snoozed for 1h0m0s", "job released", "", ""}},
		{"throttled", true, ending(queue.Throttle(time.Hour, errPlain)), told{"released plain", "job released", "", ""}},
		{"released at shutdown", true, func(ctx context.Context, s *ends, _ *queue.Job) error {
			close(s.stop)
			<-ctx.Done()
			return ctx.Err()
		}, told{"released <nil>", "", "", ""}},
		{"cancelled", true, func(ctx context.Context, s *ends, job *queue.Job) error {
			s.cancelJob(job)
			<-ctx.Done()
			return ctx.Err()
		}, told{"cancelled context canceled", "job cancelled", "", ""}},
		{"lost while it runs", true, func(ctx context.Context, s *ends, job *queue.Job) error {
			s.steal(job)
			<-ctx.Done()
			return errPlain
		}, told{"lost " + queue.ErrLost.Error(), "lease lost, the outcome of this run is not recorded", "", ""}},
		{"lost before Settle", false, func(_ context.Context, s *ends, job *queue.Job) error {
			s.steal(job)
			return errPlain
		}, told{"lost " + queue.ErrLost.Error(), "job failed, outcome not recorded, the worker no longer holds the job", "", ""}},
		{"refused for a while", false, func(_ context.Context, s *ends, _ *queue.Job) error {
			s.refuseFor(15 * time.Second)
			return errPlain
		}, told{"retried plain", "job failed, outcome cannot be recorded, will retry", "failed", ""}},
		{"cancelled while it is refused", false, func(_ context.Context, s *ends, job *queue.Job) error {
			s.refuseFor(15 * time.Second)
			s.cancelJob(job)
			return queue.RetryAfter(time.Hour, errPlain)
		}, told{"cancelled plain", "job failed, outcome cannot be recorded, will retry", "", ""}},
		{"reclaimed", false, nil, told{"retried " + crash, "lease expired, job reclaimed", "lost", ""}},
		{"reclaimed in the last attempt", true, nil, told{"dead " + crash, "job is dead", "dead lost", crash}},
		{"reclaimed and cancelled", true, func(_ context.Context, s *ends, job *queue.Job) error { s.cancelJob(job); return nil },
			told{"cancelled " + driver.ReclaimedCancelled, "job cancelled", "lost", ""}},
	} {
		synctest.Test(t, func(t *testing.T) {
			job := newTask(0)
			job.MaxAttempts = 5
			if c.last {
				job.MaxAttempts = 1
			}
			s := newEnds(t)
			enqueue(t, s, job)
			if strings.HasPrefix(c.name, "reclaimed") {
				s.crash(c.run)
				c.run = ending(queue.Snooze(time.Hour)) // of the next run, which tells nothing more
			}
			if got := s.tell(job, c.run); got != c.want {
				t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, c.want)
			}
		})
	}
}

func ending(err error) func(context.Context, *ends, *queue.Job) error {
	return func(context.Context, *ends, *queue.Job) error { return err }
}

// ends is a queue whose worker tells how runs end.
type ends struct {
	meddled
	t    *testing.T
	stop chan struct{} // closed when the worker is to stop

	mu    sync.Mutex
	until time.Time // until then Settle fails
}

func newEnds(t *testing.T) *ends {
	s := &ends{t: t, stop: make(chan struct{})}
	s.meddled = meddled{Queue: queuetest.New(queuetest.Options{}), before: func(_ context.Context, c call) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.operation == "settle" && time.Now().Before(s.until) {
			return errDown
		}
		return nil
	}}
	return s
}

func (s *ends) refuseFor(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
}

// steal settles a job that the worker holds, as a different holder of the name would.
func (s *ends) steal(job *queue.Job) {
	if _, err := s.Queue.Settle(s.t.Context(), nil, queue.Outcome{Job: job, Action: queue.Dead}); err != nil {
		s.t.Error(err)
	}
}

func (s *ends) cancelJob(job *queue.Job) {
	if _, err := s.Cancel(s.t.Context(), nil, queue.Selection{IDs: []int64{job.ID}}); err != nil {
		s.t.Error(err)
	}
}

// crash claims the job for a worker that crashes in it, after run if that is not nil.
func (s *ends) crash(run func(context.Context, *ends, *queue.Job) error) {
	held, err := s.Queue.Claim(s.t.Context(), queue.ClaimRequest{Queues: []string{queue.DefaultQueue}, Limit: 1, Lease: time.Second, Worker: "crashed"})
	if err != nil || len(held) != 1 {
		s.t.Fatalf("claimed %d jobs, error %v", len(held), err)
	}
	if run != nil {
		_ = run(s.t.Context(), s, held[0])
	}
}

// tell runs the job, and returns what is told of its first end.
func (s *ends) tell(job *queue.Job, run func(context.Context, *ends, *queue.Job) error) (got told) {
	var mu sync.Mutex
	var seen []string
	w := start(s.t, engine.Worker{Backend: s, Grace: time.Second,
		Handler: queue.HandlerFunc(func(ctx context.Context, j *queue.Job) error { return run(ctx, s, j) }),
		OnDead: func(_ context.Context, _ *queue.Job, err error) {
			mu.Lock()
			defer mu.Unlock()
			got.onDead += err.Error()
		},
		Observe: func(e queue.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Type != queue.EventStarted {
				seen = append(seen, fmt.Sprint(e.Type, " ", e.Err))
			}
		}})
	select {
	case <-s.stop:
	case <-time.After(25 * time.Second): // shorter than the first back-off
	}
	w.stop()
	if len(seen) > 0 {
		got.event = seen[0]
	}
	var logged []string
	for _, rec := range w.log.find(s.t, "errand: ") {
		if rec["job"] == float64(job.ID) {
			logged = append(logged, strings.TrimPrefix(rec["msg"].(string), "errand: "))
		}
	}
	if len(seen) > 1 { // the next run is snoozed
		logged = logged[:len(logged)-1]
	}
	got.log = strings.Join(logged, ", ")
	var counted []string
	for _, r := range statsOf(s.t, s, queue.StatsFilter{}) {
		for _, c := range []struct {
			what string
			n    int64
		}{{"done", r.Done}, {"failed", r.Failed}, {"dead", r.Dead}, {"lost", r.Lost}} {
			if c.n > 0 {
				counted = append(counted, strings.Repeat(c.what, int(c.n)))
			}
		}
	}
	got.stats = strings.Join(counted, " ")
	return got
}
