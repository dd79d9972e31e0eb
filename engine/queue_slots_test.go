package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/queuetest"
)

// gauge counts the handlers of each queue that run, and the most that have run at once.
type gauge struct {
	mu        sync.Mutex
	now, most map[string]int
	total     int
}

func newGauge() *gauge { return &gauge{now: make(map[string]int), most: make(map[string]int)} }

// handle counts a handler while f runs.
func (g *gauge) handle(f queue.HandlerFunc) queue.HandlerFunc {
	return func(ctx context.Context, job *queue.Job) error {
		name := job.Queue
		g.add(name, 1)
		defer g.add(name, -1)
		return f(ctx, job)
	}
}

func (g *gauge) add(name string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now[name] += n
	g.total += max(n, 0)
	g.most[name] = max(g.most[name], g.now[name])
}

func (g *gauge) read(name string) (now, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now[name], g.most[name]
}

func enqueueTo(t *testing.T, q queue.Enqueuer, name string, n int) {
	t.Helper()
	jobs := newTasks(n)
	for _, job := range jobs {
		job.Queue = name
	}
	enqueue(t, q, jobs...)
}

// byQueue is a handler that takes as long as its queue's name says.
func byQueue(took map[string]time.Duration) queue.HandlerFunc {
	return func(ctx context.Context, job *queue.Job) error {
		select {
		case <-ctx.Done():
		case <-time.After(took[job.Queue]):
		}
		return ctx.Err()
	}
}

// TestSlots: slow jobs of a queue take no more slots than it has, and each of these again as soon
// as it is free, in any order of the queues and with and without notifications. Jobs of the other
// queue do not wait for them, and fill what is left.
func TestSlots(t *testing.T) {
	for _, test := range []struct {
		name    string
		queues  []string
		weights map[string]int
		backend func(*queuetest.Queue) queue.Consumer
	}{
		{"first", []string{"reports", "emails"}, nil, func(q *queuetest.Queue) queue.Consumer { return q }},
		{"last", []string{"emails", "reports"}, nil, func(q *queuetest.Queue) queue.Consumer { return q }},
		{"weights", []string{"emails", "reports"}, map[string]int{"emails": 1, "reports": 3}, func(q *queuetest.Queue) queue.Consumer { return q }},
		{"plain", []string{"reports", "emails"}, nil, func(q *queuetest.Queue) queue.Consumer { return plain(q) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queuetest.New(queuetest.Options{})
				enqueueTo(t, q, "reports", 50)
				g := newGauge()
				w := start(t, engine.Worker{Backend: test.backend(q), Handler: g.handle(byQueue(map[string]time.Duration{"reports": time.Minute, "emails": time.Second})),
					Queues: test.queues, Weights: test.weights, Slots: map[string]int{"reports": 2}})
				time.Sleep(15 * time.Second) // so that emails are done before a report ends
				for range 10 {               // while reports wait for slots
					time.Sleep(time.Minute)
					enqueueTo(t, q, "emails", 80)
					time.Sleep(30 * time.Second)
				}
				if now, most := g.read("reports"); now != 2 || most != 2 {
					t.Errorf("reports: %d run, at most %d, want 2", now, most)
				}
				if now, most := g.read("emails"); now != 0 || most != 8 {
					t.Errorf("emails: %d run, at most %d, want 8 at most", now, most)
				}
				time.Sleep(9*time.Minute + 46*time.Second) // 25 times two reports take 25 minutes
				wantCount(t, q, queue.StatusCompleted, 850)
				w.stop()
			})
		})
	}
}

// TestSlotsBusy: while there is a backlog of both, the queue with a number has its slots, and the
// other one the rest.
func TestSlotsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		enqueueTo(t, q, "emails", 100_000)
		enqueueTo(t, q, "reports", 1000)
		g := newGauge()
		w := start(t, engine.Worker{Backend: q, Handler: g.handle(byQueue(map[string]time.Duration{"reports": 10 * time.Second, "emails": 10 * time.Millisecond})),
			Queues: []string{"emails", "reports"}, Weights: map[string]int{"emails": 1, "reports": 1}, Slots: map[string]int{"reports": 3}})
		time.Sleep(10*time.Second + time.Millisecond)
		for range 5 {
			time.Sleep(9 * time.Second)
			if now, most := g.read("reports"); now != 3 || most != 3 {
				t.Errorf("reports: %d run, at most %d, want 3", now, most)
			}
			if now, most := g.read("emails"); now != 7 || most > 10 {
				t.Errorf("emails: %d run, at most %d, want 7", now, most)
			}
		}
		w.stop()
	})
}

// TestSlotsAllBounded: where every queue has a number, each gets its slots.
func TestSlotsAllBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		slots := map[string]int{"a": 1, "b": 2, "c": 4}
		took := make(map[string]time.Duration)
		for name := range slots {
			enqueueTo(t, q, name, 100)
			took[name] = time.Minute
		}
		g := newGauge()
		w := start(t, engine.Worker{Backend: q, Handler: g.handle(byQueue(took)), Queues: []string{"a", "b", "c"}, Slots: slots})
		time.Sleep(10*time.Minute + time.Second)
		for name, n := range slots {
			if now, most := g.read(name); now != n || most != n {
				t.Errorf("%s: %d run, at most %d, want %d", name, now, most, n)
			}
		}
		if want := 7 * 11; g.total != want {
			t.Errorf("%d jobs were started, want %d", g.total, want)
		}
		w.stop()
	})
}

// TestSlotsReturned: however a run ends, its slot is free again.
func TestSlotsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		enqueueTo(t, q, "reports", 200)
		g := newGauge()
		handler := g.handle(func(ctx context.Context, job *queue.Job) error {
			job.Queue = "changed" // a handler may
			time.Sleep(time.Second)
			switch job.ID % 7 {
			case 0:
				return errPlain
			case 1:
				panic(errPlain)
			case 2:
				exitGoroutine()
			case 3:
				return queue.Discard(errPlain)
			case 4:
				return queue.Snooze(time.Hour)
			case 5:
				_, err := q.Settle(ctx, nil, queue.Outcome{Job: job, Action: queue.Done})
				return errors.Join(err, queue.ErrSettled)
			}
			return nil
		})
		w := start(t, engine.Worker{Backend: thief{q}, Handler: handler, Queues: []string{"reports"}, Slots: map[string]int{"reports": 2},
			OnDead: func(context.Context, *queue.Job, error) {}})
		time.Sleep(24 * time.Hour)
		enqueueTo(t, q, "reports", 10)
		time.Sleep(500 * time.Millisecond)
		if now, most := g.read("reports"); now != 2 || most != 2 {
			t.Errorf("%d run, at most %d, want 2", now, most)
		}
		w.stop()
	})
}

// TestSlotsIdle: a worker without jobs, and one whose bounded queue alone has jobs, claim no
// more often than it polls.
func TestSlotsIdle(t *testing.T) {
	for _, reports := range []int{0, 50} {
		t.Run(fmt.Sprint(reports, " reports"), func(t *testing.T) {
			claims := func(slots map[string]int) (n int) {
				synctest.Test(t, func(t *testing.T) {
					q := &claimLog{Queue: queuetest.New(queuetest.Options{})}
					enqueueTo(t, q, "reports", reports)
					w := start(t, engine.Worker{Backend: q, Handler: byQueue(map[string]time.Duration{"reports": time.Hour}),
						Queues: []string{"emails", "reports"}, Slots: slots})
					time.Sleep(50 * time.Minute)
					q.mu.Lock()
					n = len(q.orders)
					q.mu.Unlock()
					w.stop()
				})
				return n
			}
			if with, without := claims(map[string]int{"reports": 2}), claims(nil); reports == 0 && with > without+10 || with > 720 {
				t.Errorf("%d claims in 50 minutes, %d without Slots", with, without)
			}
		})
	}
}

// TestBadSlots: numbers that do not fit are refused.
func TestBadSlots(t *testing.T) {
	for _, slots := range []map[string]int{{"a": 0}, {"a": -1}, {"a": 11}, {"other": 1}, {"b": 1}} {
		err := engine.Worker{Backend: queuetest.New(queuetest.Options{}), Handler: queue.NewMux(), Queues: []string{"a", "b", "b"}, Slots: slots}.Run(t.Context())
		var bad *queue.InvalidError
		if !errors.As(err, &bad) || bad.Field != "Worker.Slots" {
			t.Errorf("%v: got %v, want an error of Worker.Slots", slots, err)
		}
	}
}
