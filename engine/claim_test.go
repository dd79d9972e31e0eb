package engine_test

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
	"github.com/errandhq/errand/queue/queuetest"
)

// heldAhead runs jobs that take d in ten slots. It returns how many jobs were claimed and not
// running at most.
func heldAhead(t *testing.T, d, prefetch time.Duration) (most int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 5000)
		var running atomic.Int32
		handler := queue.HandlerFunc(func(context.Context, *queue.Job) error {
			running.Add(1)
			time.Sleep(d)
			running.Add(-1)
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler, Prefetch: prefetch})
		for range 200 {
			time.Sleep(7 * time.Millisecond)
			synctest.Wait()
			most = max(most, count(t, q, queue.StatusRunning)-int(running.Load()))
		}
		w.stop()
	})
	return most
}

func TestPrefetch(t *testing.T) {
	for _, c := range []struct {
		name            string
		takes, prefetch time.Duration
		low, high       int
	}{
		{"slow handlers", 101 * time.Millisecond, 0, 0, 0},
		{"handlers of 10 ms", 10 * time.Millisecond, 0, 20, 100},
		{"handlers of 1 ms", time.Millisecond, 0, 400, 1000},
		{"a longer prefetch", 10 * time.Millisecond, 300 * time.Millisecond, 150, 300},
		{"none", time.Millisecond, -1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := heldAhead(t, c.takes, c.prefetch); got < c.low || got > c.high {
				t.Errorf("claimed ahead: got %d, want %d to %d", got, c.low, c.high)
			}
		})
	}
}

// TestHandlersTurnSlow: jobs were claimed ahead while handlers were fast. When handlers become
// slow, the worker releases them for workers with free slots.
func TestHandlersTurnSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		enqueue(t, q, newTasks(2100)...)
		handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			if job.ID > 100 && job.ID <= 110 {
				time.Sleep(time.Hour)
			}
			return nil
		})
		w := start(t, engine.Worker{Backend: q, Handler: handler})
		synctest.Wait()
		if held := count(t, q, queue.StatusRunning); held < 500 {
			t.Fatalf("%d jobs are held, want many that wait", held)
		}
		time.Sleep(5 * time.Second)
		wantCount(t, q, queue.StatusRunning, 10)
		wantJob(t, q, &queue.Job{ID: 200}, queue.StatusPending, 0)
		free := start(t, engine.Worker{Backend: q, Handler: handler})
		time.Sleep(5 * time.Second)
		wantCount(t, q, queue.StatusCompleted, 2090)
		free.stop()
		time.Sleep(time.Hour)
		w.stop()
		wantCount(t, q, queue.StatusCompleted, 2100)
	})
}

// startedAt records when handlers start.
func startedAt(c chan time.Time) queue.Handler {
	return queue.HandlerFunc(func(context.Context, *queue.Job) error {
		c <- time.Now()
		return nil
	})
}

func TestWokenWithoutPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		started := make(chan time.Time, 1)
		w := start(t, engine.Worker{Backend: q, Handler: startedAt(started), Poll: time.Hour})
		time.Sleep(10 * time.Minute)
		for range 3 {
			before := time.Now()
			enqueue(t, q, newTask(1))
			if took := (<-started).Sub(before); took > 10*time.Millisecond {
				t.Errorf("started %v after it was enqueued, want at once", took)
			}
			time.Sleep(time.Minute)
		}
		w.stop()
	})
}

func TestScheduledJobStartsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		job := newTask(1)
		job.Delay = 42*time.Minute + 300*time.Millisecond
		enqueue(t, q, job)
		due := time.Now().Add(job.Delay)
		started := make(chan time.Time, 1)
		w := start(t, engine.Worker{Backend: q, Handler: startedAt(started), Poll: time.Hour})
		if late := (<-started).Sub(due); late < 0 || late > 10*time.Millisecond {
			t.Errorf("started %v after it was due, want at once", late)
		}
		w.stop()
	})
}

// TestSleepIsRepeated: the worker repeats Sleep before a minute has passed, however long Poll is.
// An older announcement counts as a dead worker's.
func TestSleepIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var longest time.Duration
		last := time.Now()
		q := &meddled{Queue: newQueue(t, 0), before: func(_ context.Context, c call) error {
			if c.operation == "sleep" {
				longest = max(longest, time.Since(last))
				last = time.Now()
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(0), Poll: time.Hour})
		time.Sleep(10 * time.Minute)
		w.stop()
		if longest < 10*time.Second || longest > 40*time.Second {
			t.Errorf("slept for up to %v without saying so again, want about 30s", longest)
		}
	})
}

// TestIdleWorkerIsQuiet: an idle worker that the backend wakes makes less than a call in two
// seconds, and polls every five seconds.
func TestIdleWorkerIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = time.Hour
		var mu sync.Mutex
		calls := make(map[string]int)
		var last time.Time
		var longest time.Duration
		q := &meddled{Queue: newQueue(t, 0), before: func(_ context.Context, c call) error {
			mu.Lock()
			defer mu.Unlock()
			calls[c.operation]++
			if c.operation == "claim" && !last.IsZero() {
				longest = max(longest, time.Since(last))
			}
			if c.operation == "claim" {
				last = time.Now()
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(0)})
		time.Sleep(idle)
		w.stop()
		all := 0
		for _, n := range calls {
			all += n
		}
		if most := int(idle / (2 * time.Second)); all > most {
			t.Errorf("%d calls in %v, want at most %d: %v", all, idle, most, calls)
		}
		if longest > 5*time.Second {
			t.Errorf("%v between two looks for jobs, want at most 5s", longest)
		}
	})
}

// TestPolls: a worker needs only the four operations of its backend.
func TestPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		started := make(chan time.Time, 1)
		w := start(t, engine.Worker{Backend: plain(q), Handler: startedAt(started), Poll: 5 * time.Second})
		time.Sleep(time.Minute + time.Second)
		before := time.Now()
		enqueue(t, q, newTask(1))
		if took := (<-started).Sub(before); took > 5*time.Second+10*time.Millisecond {
			t.Errorf("started %v after it was enqueued, want within the poll of 5s", took)
		}
		w.stop()
	})
}

// deaf is a Waiter that cannot wake workers.
type deaf struct{ *queuetest.Queue }

func (deaf) Listen(context.Context, string, []string, func(driver.Signal)) error { return errPlain }

// TestPollsWhereListenFails: if Listen fails, the worker logs that and polls.
func TestPollsWhereListenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 0)
		w := start(t, engine.Worker{Backend: deaf{q}, Handler: taking(0), Poll: 5 * time.Second})
		time.Sleep(time.Minute)
		enqueue(t, q, newTask(1))
		time.Sleep(6 * time.Second)
		wantCount(t, q, queue.StatusCompleted, 1)
		w.stop()
		w.log.wantLogged(t, 1, "worker polls")
	})
}

// TestUnknownKindsAreLeftAlone: during a rolling deploy the old workers do not claim the new
// version's jobs.
func TestUnknownKindsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		next := &queue.Job{Kind: "of.the.next.version"}
		enqueue(t, q, next)
		mux := queue.NewMux()
		work.Handle(mux, func(context.Context, *queue.Job, task) error { return nil })
		pass := func(h queue.Handler) queue.Handler { return queue.HandlerFunc(h.HandleJob) }
		w := start(t, engine.Worker{Backend: q, Handler: queue.Chain(mux, pass)})
		time.Sleep(time.Hour)
		w.stop()
		wantCount(t, q, queue.StatusCompleted, 1)
		wantJob(t, q, next, queue.StatusPending, 0)
		if r := record(t, q, next); r.Fence != 0 {
			t.Errorf("it was claimed: fence %d, want 0", r.Fence)
		}
	})
}

// TestSettleBatchesGrow: the jobs that finish while a Settle is under way are settled together by
// the next one. A lone job waits for nothing.
func TestSettleBatchesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, calls atomic.Int32
		q := &meddled{Queue: newQueue(t, 2000), before: func(_ context.Context, c call) error {
			if c.operation == "settle" {
				calls.Add(1)
				most.Store(max(most.Load(), int32(len(c.jobs))))
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		}}
		w := start(t, engine.Worker{Backend: q, Handler: taking(time.Millisecond), Concurrency: 20})
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == 2000 })
		if got := most.Load(); got < 100 {
			t.Errorf("the largest batch has %d outcomes, want 100 or more", got)
		}
		calls.Store(0)
		before := time.Now()
		enqueue(t, q, newTask(1))
		until(t, "the lone one completed", func() bool { return count(t, q, queue.StatusCompleted) == 2001 })
		if took := time.Since(before); took > 40*time.Millisecond || calls.Load() != 1 {
			t.Errorf("a lone job is settled after %v in %d calls, want at once in 1", took, calls.Load())
		}
		w.stop()
	})
}

func TestAnswersInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		answers := map[string]error{
			"done": nil, "retry": queue.RetryAfter(time.Hour, errPlain), "discard": queue.Discard(errPlain),
			"snooze": queue.Snooze(time.Hour), "plain": errPlain, "last": errPlain,
		}
		jobs := make(map[string]*queue.Job)
		for kind := range answers {
			jobs[kind] = &queue.Job{Kind: kind}
		}
		jobs["last"].MaxAttempts = 1
		for _, j := range jobs {
			enqueue(t, q, j)
		}
		handler := queue.HandlerFunc(func(_ context.Context, job *queue.Job) error { return answers[job.Kind] })
		w := start(t, engine.Worker{Backend: q, Handler: handler})
		time.Sleep(time.Second)
		w.stop()
		wantJob(t, q, jobs["done"], queue.StatusCompleted, 1)
		wantJob(t, q, jobs["retry"], queue.StatusPending, 1)
		wantJob(t, q, jobs["discard"], queue.StatusDead, 1)
		wantJob(t, q, jobs["snooze"], queue.StatusPending, 0)
		wantJob(t, q, jobs["plain"], queue.StatusPending, 1)
		wantJob(t, q, jobs["last"], queue.StatusDead, 1)
		for kind, within := range map[string][2]time.Duration{
			"retry": {59 * time.Minute, time.Hour}, "snooze": {59 * time.Minute, time.Hour}, "plain": {29 * time.Second, 39 * time.Second},
		} {
			if d := time.Until(record(t, q, jobs[kind]).ScheduledAt); d < within[0] || d > within[1] {
				t.Errorf("%s: due in %v, want %v to %v", kind, d, within[0], within[1])
			}
		}
		w.log.wantLogged(t, 2, "job failed")
		w.log.wantLogged(t, 2, "job is dead")
	})
}

// TestPanics: a panic is an error with its place, and the log has its stack. Goexit ends neither
// the worker nor its slot.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{})
		panics, exits := &queue.Job{Kind: "panics"}, &queue.Job{Kind: "exits"}
		enqueue(t, q, panics, exits)
		mux := queue.NewMux()
		mux.Handle("panics", queue.HandlerFunc(func(context.Context, *queue.Job) error { panic("oh no") }))
		mux.Handle("exits", queue.HandlerFunc(func(context.Context, *queue.Job) error {
			exitGoroutine()
			return nil
		}))
		work.Handle(mux, func(context.Context, *queue.Job, task) error { return nil })
		w := start(t, engine.Worker{Backend: q, Handler: mux, Concurrency: 1})
		enqueue(t, q, newTask(1))
		time.Sleep(time.Second)
		w.stop()
		wantCount(t, q, queue.StatusCompleted, 1)
		wantJob(t, q, panics, queue.StatusPending, 1)
		wantJob(t, q, exits, queue.StatusPending, 1)
		if text := record(t, q, panics).LastError; !regexp.MustCompile(`^panic: oh no \(claim_test\.go:\d+\)$`).MatchString(text) {
			t.Errorf("LastError after a panic: got %q, want its value and place", text)
		}
		logged := w.log.find(t, "job failed")
		wantText(t, fmt.Sprint(logged), "panic: oh no (claim_test.go:", "stack:goroutine", "TestPanics")
		wantText(t, record(t, q, exits).LastError, "Goexit")
	})
}

// TestMaintenance: a worker reclaims the jobs of a crashed worker within two leases, and prunes
// jobs whose retention is over.
func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queuetest.New(queuetest.Options{Retention: queue.Retention{Completed: time.Hour}})
		enqueue(t, q, newTasks(10)...)
		const lease = 30 * time.Second
		crashed, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"default"}, Limit: 10, Lease: lease, Worker: "crashed"})
		if err != nil || len(crashed) != 10 {
			t.Fatalf("Claim: %d jobs, %v", len(crashed), err)
		}
		before := time.Now()
		var ran tally
		w := start(t, engine.Worker{Backend: q, Handler: ran.handle(taking(0)), Lease: lease})
		until(t, "all completed", func() bool { return count(t, q, queue.StatusCompleted) == 10 })
		if took := time.Since(before); took < lease || took > 2*lease {
			t.Errorf("rerun after %v, want one to two leases of %v", took, lease)
		}
		wantJob(t, q, crashed[0], queue.StatusCompleted, 2)
		time.Sleep(58 * time.Minute)
		wantCount(t, q, queue.StatusCompleted, 10)
		time.Sleep(4 * time.Minute)
		wantCount(t, q, queue.StatusCompleted, 0)
		w.stop()
		w.log.wantCounted(t, 10, "lease expired, job reclaimed")
	})
}
