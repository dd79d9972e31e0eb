package router_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/backend/router"
	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/middleware"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var done = queue.HandlerFunc(func(context.Context, *queue.Job) error { return nil })

// onlyOutbox is a router whose worker reclaims nothing itself, so that its forwarder does.
type onlyOutbox struct{ *router.Queue }

func (b onlyOutbox) Delegate(capability reflect.Type) any {
	if capability == reflect.TypeFor[driver.Reclaimer]() {
		return nil
	}
	return b.Queue.Delegate(capability)
}

// crash enqueues n jobs of one attempt in the queue, whose claimer crashes.
func crash(t *testing.T, home queue.Queue, queueName string, n int) {
	t.Helper()
	for i := range n {
		j := job(queueName, i)
		j.MaxAttempts = 1
		enqueue(t, home, nil, j)
	}
	got, err := home.Claim(t.Context(), queue.ClaimRequest{Queues: []string{queueName}, Limit: n, Lease: time.Second, Worker: "crasher"})
	if err != nil || len(got) != n {
		t.Fatalf("claimed %d jobs, error %v; want %d", len(got), err, n)
	}
}

// start runs a worker of a home with n crashed jobs and a backend that refuses a job.
func start(t *testing.T, home *faulty, n int, w engine.Worker) (stop func() (time.Duration, error)) {
	t.Helper()
	q := route(t, router.Routes{"*": home, "clicks": refusing{newFaulty()}}, router.Options{Logger: quiet})
	if n > 0 {
		crash(t, home, "default", n)
	} else {
		commit(t, home.Queue, q, job("clicks", 1))
	}
	w.Backend, w.Handler, w.Logger = onlyOutbox{q}, done, quiet
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() (time.Duration, error) {
		begun := time.Now()
		cancel()
		err := <-ended
		return time.Since(begun), err
	}
}

// TestStopForwarder: what forwards the outbox stops as its worker does: OnDead has until two
// seconds after the worker's Grace or Halt, and one that goes on is an error of Run, as is an
// outcome that is not settled.
func TestStopForwarder(t *testing.T) {
	for _, crashed := range []int{0, 1} { // without one, a job is refused
		synctest.Test(t, func(t *testing.T) {
			let := make(chan struct{})
			stop := start(t, newFaulty(), crashed, engine.Worker{Grace: time.Second, OnDead: func(context.Context, *queue.Job, error) { <-let }})
			time.Sleep(time.Minute)
			if took, err := stop(); took > 9*time.Second || err == nil {
				t.Errorf("%d crashed, OnDead ignores its context: Run took %v to stop, error %v; want one within 9 s", crashed, took, err)
			}
			close(let)
			synctest.Wait()
		})
	}
	for _, c := range []struct {
		name   string
		grace  time.Duration
		halt   bool
		onDead time.Duration // what a call takes
		took   time.Duration // at most, to stop
		called int           // to the end
	}{
		{"a short Grace", time.Second, false, time.Hour, 3 * time.Second, 0},
		{"Halt", time.Hour, true, time.Hour, 2 * time.Second, 0},
		{"a long Grace", 2 * time.Minute, false, 5 * time.Second, time.Minute, 100},
	} {
		synctest.Test(t, func(t *testing.T) {
			const n = 100
			var called atomic.Int32
			begun := make(chan struct{}, n)
			halt := make(chan struct{})
			stop := start(t, newFaulty(), n, engine.Worker{Grace: c.grace, Halt: halt, OnDead: func(ctx context.Context, _ *queue.Job, _ error) {
				begun <- struct{}{}
				select {
				case <-ctx.Done():
				case <-time.After(c.onDead):
					called.Add(1)
				}
			}})
			<-begun
			if c.halt {
				close(halt)
			}
			if took, err := stop(); took > c.took || err != nil || int(called.Load()) != c.called {
				t.Errorf("%s: Run took %v to stop, error %v, and %d calls of OnDead came to their end; want %v at most, and %d",
					c.name, took, err, called.Load(), c.took, c.called)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		home := newFaulty()
		stop := start(t, home, 0, engine.Worker{Grace: time.Second, OnDead: func(context.Context, *queue.Job, error) { home.isDown.Store(true) }})
		time.Sleep(10 * time.Second)
		if took, err := stop(); took > 9*time.Second || err == nil {
			t.Errorf("the home fails: Run took %v to stop, error %v; want one, because an outcome is not settled", took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		q := newTwo(t)
		commit(t, q.home.Queue, q, job("clicks", 1))
		q.clicks.hangs.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun := time.Now()
		err := engine.Worker{Backend: q, Handler: done, Grace: time.Millisecond, Logger: quiet}.Run(ctx)
		if took := time.Since(begun); took > 9*time.Second || err != nil {
			t.Errorf("a backend hangs: Run took %v to stop, error %v; want 8 s at most, after 1 ms of Grace", took, err)
		}
	})
}

// TestForwarderTells: the worker's Observe learns of the jobs that OnDead gets from the forwarder,
// and its records name one worker. What the OnDead of a refused job gets, InOutbox makes the job
// that was enqueued, which opens.
func TestForwarderTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret, err := middleware.NewEncrypt(middleware.EncryptOptions{Keys: middleware.Keys{"k": []byte("sixteen bytes...")}, Current: "k"})
		if err != nil {
			t.Fatal(err)
		}
		home := newFaulty()
		q := route(t, router.Routes{"*": home, "clicks": refusing{newFaulty()}}, router.Options{Logger: quiet})
		crash(t, home, "default", 3)
		commit(t, home.Queue, queue.ChainEnqueuer(q, secret.Enqueuer), job("clicks", 42))
		var log bytes.Buffer
		var dead, events atomic.Int32
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = engine.Worker{
			Backend: onlyOutbox{q}, Handler: done, Logger: slog.New(slog.NewJSONHandler(&log, nil)),
			OnDead: func(_ context.Context, j *queue.Job, _ error) {
				dead.Add(1)
				if j.Queue != router.Outbox {
					return
				}
				meant, err := router.InOutbox(j)
				if err != nil {
					t.Error(err)
					return
				}
				opened, err := secret.Open(meant)
				if err != nil || string(opened.Payload) != "42" || opened.Queue != "clicks" || opened.ID != j.ID {
					t.Errorf("opened %+v, error %v; want the job that was enqueued", opened, err)
				}
			},
			Observe: func(e queue.Event) {
				if e.Type == queue.EventDead {
					events.Add(1)
				}
			},
		}.Run(ctx)
		if err != nil || dead.Load() != 4 || events.Load() != 4 {
			t.Errorf("OnDead was called %d times, Observe %d times for a dead job, error %v; want 4", dead.Load(), events.Load(), err)
		}
		for line := range strings.Lines(log.String()) {
			if n := strings.Count(line, `"worker":`); n != 1 {
				t.Errorf("%d keys worker: %s", n, line)
			}
		}
	})
	for _, other := range []*queue.Job{nil, job("clicks", 1), {Headers: map[string]string{"errand-outbox": "null"}}, {Headers: map[string]string{"errand-outbox": "{}"}}} {
		if _, err := router.InOutbox(other); err == nil {
			t.Errorf("InOutbox of another job: no error; %+v", other)
		}
	}
}

// unanswered is a backend whose Reclaim takes effect, and does not answer: its connection breaks,
// or hangs until ctx ends.
type unanswered struct {
	*faulty
	begun  chan struct{}
	breaks chan struct{}
}

func (u *unanswered) Reclaim(ctx context.Context, limit int) ([]*queue.Job, error) {
	jobs, err := u.faulty.Reclaim(ctx, limit)
	if len(jobs) == 0 || err != nil {
		return jobs, err
	}
	close(u.begun)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-u.breaks:
		return nil, errors.New("read tcp: connection reset by peer")
	}
}

// TestLostAnswerOfReclaim: the log says that OnDead may not be called if one of the backends has
// not answered the last reclaiming of a worker that stops.
func TestLostAnswerOfReclaim(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			clicks := &unanswered{newFaulty(), make(chan struct{}), make(chan struct{})}
			crash(t, clicks, "clicks", 1)
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			q := route(t, router.Routes{"*": newFaulty(), "clicks": clicks}, router.Options{Logger: quiet})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- engine.Worker{
					Backend: q, Queues: []string{"clicks"}, Handler: done, Grace: time.Second, Logger: logger,
					OnDead: func(_ context.Context, j *queue.Job, _ error) { t.Errorf("OnDead of job %d", j.ID) },
				}.Run(ctx)
			}()
			<-clicks.begun
			cancel()
			synctest.Wait()
			if breaks {
				close(clicks.breaks)
			}
			if err := <-ended; err != nil || strings.Count(log.String(), "OnDead may not be called for some") != 1 {
				t.Errorf("the connection breaks %v: error %v; want a record that the answer is lost:\n%s", breaks, err, &log)
			}
		})
	}
}
