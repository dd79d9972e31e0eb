package backendtest

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// heldBy claims n jobs of the queue "q" for another worker.
func heldBy(t *testing.T, h Harness, worker string, n int, lease time.Duration) []*queue.Job {
	t.Helper()
	enqueue(t, h, newJobs(n, func(_ int, j *queue.Job) { j.Priority = -1 })...)
	req := request(n)
	req.Worker, req.Lease = worker, lease
	held := claim(t, h, req)
	if len(held) != n {
		t.Fatalf("Claim with limit %d: got %d jobs", n, len(held))
	}
	return held
}

// testWakeUpBySettle: an outcome with a delay wakes too, because the worker has to learn when the
// job is due.
func testWakeUpBySettle(t *testing.T, h Harness) {
	d := listens(t, h, "w", []string{"q"}, func() { enqueue(t, h, newJob()) })
	for _, action := range []queue.OutcomeAction{queue.Retry, queue.Release} {
		for _, delay := range []time.Duration{time.Hour, 0} {
			held := heldBy(t, h, "other", tries, longLease)
			what := fmt.Sprintf("%v after %v", action, delay)
			wantPrompt(t, h, d, what, func() {
				settle(t, h, queue.Outcome{Job: held[0], Action: action, Delay: delay})
				held = held[1:]
			})
			if next := d.sleep(t, h); next < 0 || next > time.Hour {
				t.Errorf("Sleep after %s: got next %v, want at most an hour", what, next)
			}
		}
	}
}

func testWakeUpBySettleIn(t *testing.T, h Harness) {
	d := listens(t, h, "w", []string{"q"}, func() { enqueue(t, h, newJob()) })
	held := heldBy(t, h, "other", tries, longLease)
	wantPrompt(t, h, d, "the commit of a Settle", func() {
		tx := begin(t, h)
		if _, err := h.Queue.Settle(t.Context(), tx, queue.Outcome{Job: held[0], Action: queue.Release}); err != nil {
			t.Fatalf("Settle in a transaction: %v", err)
		}
		commit(t, tx)
		held = held[1:]
	})
}

func testWakeUpByReclaim(t *testing.T, h Harness) {
	const lease = 2 * time.Millisecond
	reclaimer, _ := driver.As[driver.Reclaimer](h.Queue)
	d := listens(t, h, "w", []string{"q"}, func() { enqueue(t, h, newJob()) })
	for range 3 {
		heldBy(t, h, "crashed", 1, lease)
		d.sleep(t, h)
		poll(t, "an expired job to be reclaimed", func() bool {
			jobs, err := reclaimer.Reclaim(t.Context(), 10)
			if err != nil {
				t.Fatalf("Reclaim: %v", err)
			}
			return len(jobs) > 0
		})
		if !d.isWoken(patience) {
			t.Fatalf("Reclaim of a job did not wake a sleeping worker within %v", patience)
		}
		for _, j := range claim(t, h, request(10)) {
			settle(t, h, queue.Outcome{Job: j})
		}
	}
}

// testStartsWhenDue: a sleeping worker starts each job when it is due and not at its next poll,
// whatever made the job due, even if that happened after the worker fell asleep.
func testStartsWhenDue(t *testing.T, h Harness) {
	const delay, poll = 100 * time.Millisecond, time.Hour
	held := heldBy(t, h, "other", 4, longLease)
	dead := heldBy(t, h, "other", 1, longLease)
	settle(t, h, outcomes(queue.Dead, dead...)...)
	heldBy(t, h, "crashed", 1, 2*time.Millisecond)

	started := make(chan bool, 1)
	stop := startWorker(t, engine.Worker{
		Backend: h.Queue, Queues: []string{"q"}, Poll: poll, Lease: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Handler: queue.HandlerFunc(func(context.Context, *queue.Job) error { started <- true; return nil }),
	})
	defer stop()
	enqueue(t, h, newJob())
	<-started
	for _, way := range []struct {
		name  string
		delay time.Duration
		do    func(delay time.Duration)
	}{
		{"enqueued", 0, func(time.Duration) { enqueue(t, h, newJob()) }},
		{"enqueued with a delay", delay, func(d time.Duration) {
			j := newJob()
			j.Delay = d
			enqueue(t, h, j)
		}},
		{"retried", delay, func(d time.Duration) { settle(t, h, queue.Outcome{Job: held[0], Action: queue.Retry, Delay: d}) }},
		{"retried at once", 0, func(time.Duration) { settle(t, h, queue.Outcome{Job: held[1], Action: queue.Retry}) }},
		{"snoozed", delay, func(d time.Duration) { settle(t, h, queue.Outcome{Job: held[2], Action: queue.Release, Delay: d}) }},
		{"released", 0, func(time.Duration) { settle(t, h, queue.Outcome{Job: held[3], Action: queue.Release}) }},
		{"reclaimed", 0, func(time.Duration) { reclaimOne(t, h) }},
		{"redriven", 0, func(time.Duration) { redriveOne(t, h, dead[0].ID) }},
	} {
		time.Sleep(asleep) // the worker falls asleep
		way.do(way.delay)
		select {
		case <-started:
		case <-time.After(way.delay + patience):
			t.Fatalf("%s: not started %v after it was due, by a worker that polls each %v", way.name, patience, poll)
		}
	}
}

// startWorker runs a worker until stop is called.
func startWorker(t *testing.T, w engine.Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func reclaimOne(t *testing.T, h Harness) {
	t.Helper()
	reclaimer, _ := driver.As[driver.Reclaimer](h.Queue)
	if jobs, err := reclaimer.Reclaim(t.Context(), 10); err != nil || len(jobs) != 1 {
		t.Fatalf("Reclaim beside one expired job: got %d, error %v", len(jobs), err)
	}
}

func redriveOne(t *testing.T, h Harness, id int64) {
	t.Helper()
	editor, _ := driver.As[driver.Editor](h.Queue)
	if n, err := editor.Redrive(t.Context(), nil, queue.Selection{IDs: []int64{id}}); err != nil || n != 1 {
		t.Fatalf("Redrive of a dead job: got %d, error %v", n, err)
	}
}
