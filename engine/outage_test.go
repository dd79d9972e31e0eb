package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/internal/extent"
	"github.com/errandhq/errand/queue"
)

// TestOutage: the database is down for a while. Each operation logs that once, retries at growing
// intervals, and logs once that it works again. No job is lost.
func TestOutage(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		var down atomic.Bool
		var mu sync.Mutex
		var claims []time.Time // of the outage
		q := &meddled{Queue: newQueue(t, n), before: func(_ context.Context, c call) error {
			if !down.Load() {
				return nil
			}
			if c.operation == "claim" {
				mu.Lock()
				claims = append(claims, time.Now())
				mu.Unlock()
			}
			return errDown
		}}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(10 * time.Millisecond)), Concurrency: 5})
		time.Sleep(time.Second)
		down.Store(true)
		time.Sleep(20 * time.Second) // shorter than the lease: finished jobs are settled after it
		down.Store(false)
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == n })
		w.stop()
		ran.wantEach(t, n)
		for _, operation := range []string{"claim", "settle"} {
			w.log.wantLogged(t, 1, "errand: "+operation+" failed")
			w.log.wantLogged(t, 1, "errand: "+operation+" works again")
		}
		wantBackOff(t, claims)
	})
}

// wantBackOff expects calls over 20 s with growing pauses between them: short at first, seconds at
// the end, and never the same.
func wantBackOff(t *testing.T, tries []time.Time) {
	t.Helper()
	if len(tries) < 8 || len(tries) > 30 {
		t.Fatalf("tried %d times in 20 s, want 8 to 30", len(tries))
	}
	var pauses []time.Duration
	for i := 1; i < len(tries); i++ {
		pauses = append(pauses, tries[i].Sub(tries[i-1]))
	}
	if first, last := pauses[0], pauses[len(pauses)-1]; first > 100*time.Millisecond || last < time.Second || last > 4*time.Second {
		t.Errorf("pauses from %v to %v, want 25 to 50 ms growing to 1.5 to 3 s", first, last)
	}
	slices.Sort(pauses)
	if same := len(pauses) - len(slices.Compact(pauses)); same > 0 {
		t.Errorf("%d pauses are alike: no jitter", same)
	}
}

// TestLongOutage: an outage is longer than leases. Jobs run again, none is lost, and the worker
// recovers without help.
func TestLongOutage(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		const n = 500
		var down atomic.Bool
		q := &meddled{Queue: newQueue(t, n), before: func(context.Context, call) error {
			if down.Load() {
				return errDown
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(50 * time.Millisecond), Concurrency: 5})
		time.Sleep(time.Second)
		for range 3 {
			down.Store(true)
			time.Sleep(10 * time.Minute)
			down.Store(false)
			time.Sleep(time.Second)
		}
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == n })
		w.stop()
	})
}

// TestStopDuringOutage: Run gives up after a bounded time. Its error says how many outcomes it
// could not settle.
func TestStopDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		q := &meddled{Queue: newQueue(t, 1), before: func(context.Context, call) error {
			if down.Load() {
				return errDown
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(2 * time.Second)})
		time.Sleep(time.Second)
		down.Store(true)
		time.Sleep(5 * time.Second)
		w.cancel()
		took, err := w.wait()
		if err == nil || took > 15*time.Second {
			t.Fatalf("Run returned %v after %v, want an error within 15 s", err, took)
		}
		wantText(t, err.Error(), "outcomes not settled: 1")
	})
}

// TestOutageLongerThanLeases: the database is down for ten leases of two workers. They settle their
// finished jobs afterwards, and do not reclaim each other's.
func TestOutageLongerThanLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		q := &meddled{Queue: newQueue(t, 0), before: func(context.Context, call) error {
			if down.Load() {
				return errDown
			}
			return nil
		}}
		var ran tally
		worker := engine.Worker{Backend: q, Handler: ran.handle(taking(20 * time.Second)), Lease: 30 * time.Second}
		a, b := start(t, worker), start(t, worker)
		const rounds, n = 20, 20
		for range rounds {
			jobs := newTasks(n)
			for _, j := range jobs {
				j.MaxAttempts = 1
			}
			enqueue(t, q, jobs...)
			time.Sleep(10 * time.Second)
			down.Store(true)
			time.Sleep(5 * time.Minute)
			down.Store(false)
			time.Sleep(time.Minute)
		}
		a.stop()
		b.stop()
		wantCount(t, q, queue.StatusCompleted, rounds*n)
		ran.wantEach(t, rounds*n)
		for _, operation := range []string{"claim", "settle"} {
			a.log.wantLogged(t, rounds, "errand: "+operation+" failed")
			a.log.wantLogged(t, rounds, "errand: "+operation+" works again")
		}
	})
}

// TestUnsettledJobsAreBounded: while Settle fails, the worker stops claiming once 5,000 outcomes
// wait. By then it may have claimed 2,000 jobs ahead, and each slot has one.
func TestUnsettledJobsAreBounded(t *testing.T) {
	extent.Long(t)
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		q := &meddled{Queue: newQueue(t, 8000), before: func(_ context.Context, c call) error {
			if c.operation == "settle" && down.Load() {
				return errDown
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(time.Millisecond), Concurrency: 100})
		time.Sleep(time.Minute)
		if held := count(t, q, queue.StatusRunning); held < 5000 || held > 7100 {
			t.Errorf("%d jobs are held, want 5,000 to 7,100", held)
		}
		down.Store(false)
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == 8000 })
		w.stop()
	})
}

// TestPoisonOutcome: the backend cannot record one outcome. The others are settled. The worker
// holds the job meanwhile, logs the failure at long intervals only, and settles the outcome as soon
// as the backend can.
func TestPoisonOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, poison = 1000, 500
		var cured atomic.Bool
		q := &meddled{Queue: newQueue(t, n), before: func(_ context.Context, c call) error {
			for _, j := range c.jobs {
				if c.operation == "settle" && j.ID == poison && !cured.Load() {
					return errPlain
				}
			}
			return nil
		}}
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(time.Millisecond)), Concurrency: 20})
		before := time.Now()
		until(t, "all others completed", func() bool { return count(t, q, queue.StatusCompleted) == n-1 })
		if took := time.Since(before); took > 5*time.Second {
			t.Errorf("the others were settled after %v", took)
		}
		for range 600 {
			enqueue(t, q, newTasks(10)...)
			time.Sleep(100 * time.Millisecond)
		}
		wantCount(t, q, queue.StatusCompleted, n-1+6000)
		wantJob(t, q, &queue.Job{ID: poison}, queue.StatusRunning, 1)
		w.log.wantLogged(t, 1, "outcome cannot be recorded")
		if lines := len(w.log.find(t, "")); lines > 30 {
			t.Errorf("%d records for one outcome, want a few; the log:\n%s", lines, w.log)
		}
		cured.Store(true)
		time.Sleep(time.Minute)
		w.stop()
		wantCount(t, q, queue.StatusCompleted, n+6000)
		ran.wantEach(t, n+6000)
	})
}

// TestPoisonBesideSingles: outcomes that are settled one by one, each as its job ends, do not keep
// an outcome that the backend cannot record from being set aside, and the log does not tell of each
// try. So it is with one such outcome in fifty.
func TestPoisonBesideSingles(t *testing.T) {
	for name, isPoison := range map[string]func(id int64) bool{
		"one":         func(id int64) bool { return id == 5 },
		"one in 50":   func(id int64) bool { return id%50 == 5 },
		"ten at once": func(id int64) bool { return id > 500 && id <= 510 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cured atomic.Bool
				q := &meddled{Queue: newQueue(t, 0), before: func(_ context.Context, c call) error {
					if c.operation == "settle" && !cured.Load() && slices.ContainsFunc(c.jobs, func(j *queue.Job) bool { return isPoison(j.ID) }) {
						return errPlain
					}
					return nil
				}}
				var ran tally
				w := start(t, engine.Worker{Backend: q, Handler: ran.handle(func(context.Context, *queue.Job) error { return nil })})
				poisoned := 0
				for i := range 9000 { // a minute
					if isPoison(int64(i + 1)) {
						poisoned++
					}
					enqueue(t, q, newTask(i))
					time.Sleep(time.Second / 150)
				}
				time.Sleep(5 * time.Second)
				wantCount(t, q, queue.StatusRunning, poisoned)
				if named := len(w.log.find(t, "outcome cannot be recorded")); named < min(poisoned, 5) || named > poisoned {
					t.Errorf("%d of %d outcomes are named", named, poisoned)
				}
				if lines := len(w.log.find(t, "settle")); lines > 4 {
					t.Errorf("%d records of settling, want a few; the log:\n%s", lines, w.log)
				}
				cured.Store(true)
				time.Sleep(2 * time.Minute)
				w.stop()
				wantCount(t, q, queue.StatusCompleted, 9000)
				ran.wantEach(t, 9000)
			})
		})
	}
}

// TestPoisonCrowd: jobs that end later do not wait for hundreds of outcomes that the backend cannot
// record, and of which none is recorded.
func TestPoisonCrowd(t *testing.T) {
	for name, after := range map[string]time.Duration{"soon": 2 * time.Second, "later": 40 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const poisoned = 3000
				q := &meddled{Queue: newQueue(t, poisoned), before: func(_ context.Context, c call) error {
					if c.operation == "settle" && slices.ContainsFunc(c.jobs, func(j *queue.Job) bool { return j.ID <= poisoned }) {
						return errPlain
					}
					return nil
				}}
				w := start(t, engine.Worker{Backend: q, Concurrency: 100, Handler: taking(0)})
				time.Sleep(after)
				for i := range 60 {
					enqueue(t, q, newTask(i))
					time.Sleep(time.Second)
				}
				wantCount(t, q, queue.StatusCompleted, 60)
				wantCount(t, q, queue.StatusRunning, poisoned)
				w.cancel()
				if took, err := w.wait(); err == nil || took > 8*time.Second {
					t.Errorf("Run returned %v after %v, want an error within 8s", err, took)
				}
			})
		})
	}
}

// TestPoisonSlow: two outcomes that the backend refuses at first, and takes a second to settle, are
// recorded one after the other when the worker stops. None waits for a lock, which would stop the
// clock of this test.
func TestPoisonSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cured atomic.Bool
		q := &meddled{Queue: newQueue(t, 2), before: func(_ context.Context, c call) error {
			if c.operation != "settle" || !slices.ContainsFunc(c.jobs, func(j *queue.Job) bool { return j.ID <= 2 }) {
				return nil
			}
			time.Sleep(time.Second)
			if !cured.Load() {
				return errPlain
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(0)})
		for i := range 60 {
			enqueue(t, q, newTask(i))
			time.Sleep(time.Second)
		}
		wantCount(t, q, queue.StatusRunning, 2)
		cured.Store(true)
		w.stop()
		wantCount(t, q, queue.StatusCompleted, 62)
	})
}

// TestLonePoisonOutcome: the backend cannot record the outcome of the only job. The log names the
// job once the failure is no short outage, and then once a minute.
func TestLonePoisonOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cured atomic.Bool
		q := &meddled{Queue: newQueue(t, 1), before: func(_ context.Context, c call) error {
			if c.operation == "settle" && !cured.Load() {
				return errPlain
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(time.Millisecond)})
		time.Sleep(9 * time.Second)
		w.log.wantLogged(t, 0, "outcome cannot be recorded")
		time.Sleep(66 * time.Second)
		w.log.wantLogged(t, 1, "settle failed")
		w.log.wantLogged(t, 2, "outcome cannot be recorded")
		for _, record := range w.log.find(t, "outcome cannot be recorded") {
			if record["job"] != float64(1) {
				t.Errorf("got %v, want a record that names the job", record)
			}
		}
		cured.Store(true)
		time.Sleep(10 * time.Second)
		wantCount(t, q, queue.StatusCompleted, 1)
		w.stop()
	})
}

// TestPoisonOutcomeAtShutdown: the worker retries the outcome a last time. Run's error says that it
// is left.
func TestPoisonOutcomeAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, poison = 100, 50
		q := &meddled{Queue: newQueue(t, n), before: func(_ context.Context, c call) error {
			for _, j := range c.jobs {
				if c.operation == "settle" && j.ID == poison {
					return errPlain
				}
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(time.Millisecond)})
		time.Sleep(10 * time.Second)
		enqueue(t, q, newTasks(10)...)
		time.Sleep(10 * time.Second)
		w.cancel()
		_, err := w.wait()
		if err == nil {
			t.Fatal("Run: got nil, want an error for the outcome that was not settled")
		}
		wantText(t, err.Error(), "outcomes not settled: 1")
		wantCount(t, q, queue.StatusCompleted, n+9)
	})
}

// TestOutcomeOfLostJobLogged: a job is lost while its outcome waits to be settled. The worker logs
// that and does not retry.
func TestOutcomeOfLostJobLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := newQueue(t, 1)
		var taken atomic.Bool
		q := &meddled{Queue: memory, before: func(_ context.Context, c call) error {
			if c.operation == "settle" && !taken.Swap(true) {
				_, err := memory.Settle(context.Background(), nil, queue.Outcome{Job: c.jobs[0], Action: queue.Dead})
				return err
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(0)})
		time.Sleep(time.Minute)
		w.stop()
		wantCount(t, q, queue.StatusDead, 1)
		w.log.wantLogged(t, 1, "outcome not recorded")
	})
}
