package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var controlCases = []testCase{
	{"cancel what waits", hasCanceller, testCancelPending},
	{"cancel by each field", hasCanceller, cancelling.testFields},
	{"cancel what runs", hasCanceller, testCancelRunning},
	{"outcomes of a cancelled run", hasCanceller, testCancelledOutcomes},
	{"cancel and crash", hasCanceller | hasReclaimer, testCancelledCrash},
	{"cancel in a transaction", hasCanceller | hasTx, testCancelInTx},
	{"cancel what another transaction has claimed", hasCanceller | hasTxClaimer, cancelling.testBesideClaimTx},
	{"cancel beside claims", hasCanceller, testCancelBesideClaims},
	{"cancel 2,500 jobs", hasCanceller, testCancelMany},
	{"cancel with a bad filter", hasCanceller, cancelling.testBad},
	{"a hint to cancel", hasCanceller, testCancelHint},
}

// cancelJobs cancels and checks how many jobs were chosen.
func cancelJobs(t *testing.T, h Harness, which queue.Selection, want int) {
	t.Helper()
	cancelling.run(t, h, nil, which, want)
}

func byID(jobs ...*queue.Job) queue.Selection { return queue.Selection{IDs: ids(jobs)} }

// wantAsked checks which of the held jobs Extend says are to be cancelled.
func wantAsked(t *testing.T, h Harness, when string, held, want []*queue.Job) {
	t.Helper()
	lost, asked, err := h.Queue.Extend(t.Context(), longLease, held...)
	if err != nil || len(lost) != 0 {
		t.Fatalf("Extend %s: lost %v, error %v; want none lost", when, ids(lost), err)
	}
	wantSameIDs(t, "jobs that Extend asks to cancel "+when, asked, want)
}

func testCancelPending(t *testing.T, h Harness) {
	jobs := newJobs(3, func(i int, j *queue.Job) { j.Delay = time.Duration(i) * time.Hour })
	jobs[1].Key = "a"
	enqueue(t, h, jobs...)
	cancelJobs(t, h, byID(jobs[0], jobs[1]), 2)
	for _, j := range jobs[:2] {
		wantStatus(t, h, "after Cancel", j.ID, queue.StatusCancelled)
		if r, ok := lookUp(t, h, j.ID); ok && (r.FinishedAt.IsZero() || r.CancelAt.IsZero() || !r.StartedAt.IsZero()) {
			t.Errorf("record of a cancelled job: got %+v, want FinishedAt and CancelAt, no StartedAt", r)
		}
	}
	claimNone(t, h, "after Cancel")
	wantStatus(t, h, "that was not chosen", jobs[2].ID, queue.StatusPending)
	again := keyed("a")
	enqueue(t, h, again)
	if again.Duplicate {
		t.Error("the key of a cancelled job is not free")
	}
	cancelJobs(t, h, byID(jobs[0], jobs[1]), 0) // they have ended
}

// testCancelRunning: a job that runs is asked for, and its holder keeps it, with its key.
func testCancelRunning(t *testing.T, h Harness) {
	jobs := []*queue.Job{keyed("a"), newJob(), newJob()}
	enqueue(t, h, jobs...)
	held := claim(t, h, request(2))
	wantAsked(t, h, "before Cancel", held, nil)
	cancelJobs(t, h, byID(jobs...), 3)
	wantAsked(t, h, "after Cancel", held, held)
	wantAsked(t, h, "again", held, held)
	claimNone(t, h, "after Cancel of a running job")
	again := keyed("a")
	enqueue(t, h, again)
	wantDuplicate(t, "that a cancelled job holds which still runs", again, jobs[0])
	cancelJobs(t, h, byID(held[0]), 1) // once more does no harm
	if r, ok := lookUp(t, h, held[0].ID); ok && (r.Status != queue.StatusRunning || r.CancelAt.IsZero() || r.Worker != held[0].Worker) {
		t.Errorf("record of a running job that is to be cancelled: got %+v, want it running, with its worker and CancelAt", r)
	}
	settle(t, h, outcomes(queue.Cancel, held...)...)
	wantStatus(t, h, "after it was settled", held[0].ID, queue.StatusCancelled)
	enqueue(t, h, again)
	if again.Duplicate {
		t.Error("the key of a cancelled job is not free")
	}
}

func testCancelledOutcomes(t *testing.T, h Harness) {
	for _, c := range []struct {
		o    queue.Outcome
		want queue.Status
	}{
		{queue.Outcome{Action: queue.Done}, queue.StatusCompleted},
		{queue.Outcome{Action: queue.Dead}, queue.StatusDead},
		{queue.Outcome{Action: queue.Retry, Delay: time.Hour}, queue.StatusCancelled},
		{queue.Outcome{Action: queue.Release}, queue.StatusCancelled},
		{queue.Outcome{Action: queue.Release, Delay: time.Hour}, queue.StatusCancelled},
		{queue.Outcome{Action: queue.Cancel}, queue.StatusCancelled},
	} {
		for _, attempts := range []int{1, 3} { // in its last attempt, and before
			j := newJob()
			j.MaxAttempts = attempts
			enqueue(t, h, j)
			held := claimOne(t, h)
			cancelJobs(t, h, byID(j), 1)
			c.o.Job = held
			if c.o.Action != queue.Done && c.o.Action != queue.Release {
				c.o.Err = errors.New("stopped")
			}
			settle(t, h, c.o)
			r, ok := lookUp(t, h, j.ID)
			if !ok {
				continue // no Inspector, or a completed job is not kept
			}
			if r.Status != c.want || c.o.Err != nil && r.LastError != "stopped" || r.FinishedAt.IsZero() {
				t.Errorf("a cancelled job of %d attempts after %v: got %q, LastError %q, FinishedAt %v; want %q",
					attempts, c.o.Action, r.Status, r.LastError, r.FinishedAt, c.want)
			}
		}
	}
	claimNone(t, h, "after cancelled runs")
}

func testCancelledCrash(t *testing.T, h Harness) {
	jobs := newJobs(3, func(i int, j *queue.Job) { j.MaxAttempts = 1 + i })
	enqueue(t, h, jobs...)
	held := claim(t, h, short(request(3)))
	cancelJobs(t, h, byID(held...), 3)
	for _, j := range awaitReclaim(t, h, 3) {
		if j.LastError != driver.ReclaimedCancelled {
			t.Errorf("LastError of a cancelled job that was reclaimed: got %q, want %q", j.LastError, driver.ReclaimedCancelled)
		}
	}
	for _, j := range held {
		wantStatus(t, h, "after its worker has crashed", j.ID, queue.StatusCancelled)
	}
	claimNone(t, h, "after cancelled jobs were reclaimed")
	if lost, err := h.Queue.Settle(t.Context(), nil, queue.Outcome{Job: held[0]}); err != nil || len(lost) != 1 {
		t.Errorf("Settle of a cancelled job that was reclaimed: lost %v, error %v; want it lost", ids(lost), err)
	}
}

func testCancelInTx(t *testing.T, h Harness) {
	jobs := newJobs(2, nil)
	enqueue(t, h, jobs...)
	held := claim(t, h, request(1))
	tx := begin(t, h)
	cancelling.run(t, h, tx, queue.Selection{Queue: "q"}, 2)
	rollback(t, tx)
	wantAsked(t, h, "after a rollback", held, nil)
	wantStatus(t, h, "after a rollback", jobs[1].ID, queue.StatusPending)
	tx = begin(t, h)
	own := newJob()
	enqueueIn(t, h, tx, own)
	cancelling.run(t, h, tx, queue.Selection{Queue: "q"}, 3)
	wantNoneBeside(t, h, "beside an open Cancel")
	commit(t, tx)
	wantAsked(t, h, "after the commit", held, held)
	wantStatus(t, h, "after the commit", jobs[1].ID, queue.StatusCancelled)
	wantStatus(t, h, "enqueued and cancelled in one transaction", own.ID, queue.StatusCancelled)
}

// testCancelBesideClaims: whatever claims do meanwhile, Cancel misses no job: each is cancelled, or
// its holder is asked.
func testCancelBesideClaims(t *testing.T, h Harness) {
	canceller, _ := driver.As[driver.Canceller](h.Queue)
	jobs := newJobs(400, nil)
	enqueue(t, h, jobs...)
	var held [4][]*queue.Job
	var wg sync.WaitGroup
	for i := range held {
		wg.Go(func() {
			req := request(7)
			req.Worker = fmt.Sprint("w", i)
			for range 20 {
				more, err := h.Queue.Claim(t.Context(), req)
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				held[i] = append(held[i], more...)
				if len(more) > 1 { // this one comes back meanwhile
					_, err = h.Queue.Settle(t.Context(), nil, queue.Outcome{Job: more[0], Action: queue.Release})
					held[i] = slices.DeleteFunc(held[i], func(j *queue.Job) bool { return j == more[0] })
				}
				if err != nil {
					t.Errorf("Settle: %v", err)
				}
			}
		})
	}
	n, err := canceller.Cancel(t.Context(), nil, queue.Selection{Queue: "q"})
	wg.Wait()
	if err != nil || n != len(jobs) {
		t.Errorf("Cancel beside claims: got %d, error %v; want %d", n, err, len(jobs))
	}
	for _, mine := range held {
		wantAsked(t, h, "beside claims", mine, mine)
	}
	claimNone(t, h, "after all jobs were cancelled")
}

func testCancelMany(t *testing.T, h Harness) {
	jobs := newJobs(2500, func(i int, j *queue.Job) { j.Priority, j.Kind = int32(i%3), []string{"k", "l"}[i%2] })
	enqueue(t, h, jobs...)
	held := claim(t, h, request(10))
	cancelJobs(t, h, queue.Selection{Queue: "q"}, len(jobs))
	wantAsked(t, h, "after Cancel of many", held, held)
	claimNone(t, h, "after Cancel of all")
}

// testCancelHint: a backend that wakes workers also tells them at once what to cancel.
func testCancelHint(t *testing.T, h Harness) {
	if h.NoHints {
		t.Skip("the backend leaves cancels to heartbeats")
	}
	signals := hear(t, h, "w", []string{"q"})
	for range 3 {
		enqueue(t, h, newJob())
		held := claimOne(t, h)
		poll(t, "a hint to cancel", func() bool {
			cancelJobs(t, h, byID(held), 1) // again until it listens
			return hears(signals, 100*time.Millisecond, func(s driver.Signal) bool {
				return s.Cancels && (len(s.IDs) == 0 || slices.Contains(s.IDs, held.ID))
			})
		})
		wantAsked(t, h, "after a hint", []*queue.Job{held}, []*queue.Job{held})
		settle(t, h, queue.Outcome{Job: held, Action: queue.Cancel})
	}
}

// hear returns what gets the signals of a Listen that is under way until the test ends.
func hear(t *testing.T, h Harness, worker string, queues []string) <-chan driver.Signal {
	t.Helper()
	waiter, _ := driver.As[driver.Waiter](h.Queue)
	ctx, stop := context.WithCancel(t.Context())
	signals := make(chan driver.Signal, 10_000)
	ended := make(chan error, 1)
	go func() { ended <- waiter.Listen(ctx, worker, queues, func(s driver.Signal) { signals <- s }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Listen: %v", err)
		}
	})
	return signals
}

// hears reports whether such a signal comes within that time.
func hears(signals <-chan driver.Signal, within time.Duration, isWanted func(driver.Signal) bool) bool {
	timeout := time.After(within)
	for {
		select {
		case s := <-signals:
			if isWanted(s) {
				return true
			}
		case <-timeout:
			return false
		}
	}
}
