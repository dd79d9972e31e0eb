package backendtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var cancelCases = []testCase{
	{"before any operation", anything, testCancelledOperations},
	{"before enqueueing or settling in a transaction", hasTx, testCancelledInTx},
	{"before waiting", hasWakeUps, testCancelledSleep},
	{"before looking", hasInspector, testCancelledLook},
	{"before redriving", hasEditor, testCancelledRedrive},
	{"before pruning", hasReclaimer, testCancelledPrune},
	{"before reclaiming", hasReclaimer, testCancelledReclaim},
	{"before claiming in a transaction", hasTxClaimer, testCancelledClaimTx},
	{"while enqueueing", isFull, testCancelEnqueue},
	{"while settling", isFull, testCancelSettle},
	{"while claiming", isFull, testCancelClaim},
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func wantCanceled(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%s with a cancelled context: got error %v, want context.Canceled", what, err)
	}
}

func testCancelledOperations(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(2, nil)...)
	held := claim(t, h, request(1))[0]
	before, _ := lookUp(t, h, held.ID)
	ctx := cancelled(t)

	wantCanceled(t, "Enqueue", h.Queue.Enqueue(ctx, nil, newJob()))
	jobs, err := h.Queue.Claim(ctx, request(1))
	wantCanceled(t, "Claim", err)
	wantIDs(t, "Claim with a cancelled context", jobs, nil)
	for _, v := range holderOperations {
		_, err := v.do(ctx, h, held)
		wantCanceled(t, v.name, err)
		wantUnchanged(t, h, v.name+" with a cancelled context", before)
	}
	wantHeld(t, h, "after calls with a cancelled context", held)
	if got := claimOne(t, h); got.Attempt != 1 {
		t.Errorf("claim after one with a cancelled context: got attempt %d, want 1", got.Attempt)
	}
}

func testCancelledInTx(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	held := claimOne(t, h)
	for _, do := range []func(ctx context.Context, tx Tx) error{
		func(ctx context.Context, tx Tx) error { return h.Queue.Enqueue(ctx, tx, newJob()) },
		func(ctx context.Context, tx Tx) error {
			_, err := h.Queue.Settle(ctx, tx, queue.Outcome{Job: held})
			return err
		},
	} {
		tx := begin(t, h)
		wantCanceled(t, "Enqueue or Settle in a transaction", do(cancelled(t), tx))
		rollback(t, tx)
	}
	claimNone(t, h, "after a cancelled Enqueue")
	wantHeld(t, h, "after a cancelled Settle", held)
}

func testCancelledSleep(t *testing.T, h Harness) {
	waiter, _ := driver.As[driver.Waiter](h.Queue)
	_, err := waiter.Sleep(cancelled(t), "w", []string{"q"})
	wantCanceled(t, "Sleep", err)
	if err := waiter.Listen(cancelled(t), "w", []string{"q"}, func(driver.Signal) {}); err != nil {
		t.Errorf("Listen with a cancelled context: got error %v, want none", err)
	}
}

func testCancelledLook(t *testing.T, h Harness) {
	inspector, _ := driver.As[driver.Inspector](h.Queue)
	_, err := inspector.Counts(cancelled(t))
	wantCanceled(t, "Counts", err)
	_, _, err = inspector.Jobs(cancelled(t), queue.Filter{})
	wantCanceled(t, "Jobs", err)
	_, _, err = inspector.Job(cancelled(t), 1)
	wantCanceled(t, "Job", err)
}

func testCancelledRedrive(t *testing.T, h Harness) {
	editor, _ := driver.As[driver.Editor](h.Queue)
	enqueue(t, h, newJob())
	settle(t, h, queue.Outcome{Job: claimOne(t, h), Action: queue.Dead})
	n, err := editor.Redrive(cancelled(t), nil, queue.Selection{Queue: "q"})
	wantCanceled(t, "Redrive", err)
	if n != 0 {
		t.Errorf("Redrive with a cancelled context: got %d, want 0", n)
	}
	claimNone(t, h, "after a cancelled Redrive")
}

func testCancelledPrune(t *testing.T, h Harness) {
	reclaimer, _ := driver.As[driver.Reclaimer](h.Queue)
	_, _, err := reclaimer.Prune(cancelled(t))
	wantCanceled(t, "Prune", err)
}

func testCancelledReclaim(t *testing.T, h Harness) {
	reclaimer, _ := driver.As[driver.Reclaimer](h.Queue)
	enqueue(t, h, newJob())
	claim(t, h, short(request(1)))
	_, err := reclaimer.Reclaim(cancelled(t), 1)
	wantCanceled(t, "Reclaim", err)
	awaitReclaim(t, h, 1)
}

func testCancelledClaimTx(t *testing.T, h Harness) {
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	enqueue(t, h, newJob())
	tx := begin(t, h)
	_, err := claimer.ClaimTx(cancelled(t), tx, queue.ClaimRequest{Queues: []string{"q"}})
	wantCanceled(t, "ClaimTx", err)
	rollback(t, tx)
	claimOne(t, h)
}

// whenCancelled calls do with contexts that are cancelled after a short and after a longer time. It
// checks that an error of do is context.Canceled.
func whenCancelled(t *testing.T, do func(ctx context.Context, i int) error) {
	t.Helper()
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(i)*250*time.Microsecond, cancel)
		if err := do(ctx, i); err != nil {
			wantCanceled(t, fmt.Sprintf("call %d", i), err)
		}
		timer.Stop()
		cancel()
	}
}

// testCancelEnqueue checks that a batch is written as a whole or not at all.
func testCancelEnqueue(t *testing.T, h Harness) {
	const n = 200
	whenCancelled(t, func(ctx context.Context, i int) error {
		name := fmt.Sprint("q", i)
		err := h.Queue.Enqueue(ctx, nil, newJobs(n, func(_ int, j *queue.Job) { j.Queue = name })...)
		req := request(n + 1)
		req.Queues = []string{name}
		got := len(claim(t, h, req))
		if got != n && (got != 0 || err == nil) {
			t.Errorf("a batch of %d whose context was cancelled midway, error %v: %d were written, want all, or none and an error", n, err, got)
		}
		return err
	})
}

// testCancelSettle checks that a batch is settled as a whole or not at all.
func testCancelSettle(t *testing.T, h Harness) {
	const n = 200
	whenCancelled(t, func(ctx context.Context, i int) error {
		enqueue(t, h, newJobs(n, nil)...)
		batch := outcomes(queue.Done, claimAll(t, h, n)...)
		_, cancelErr := h.Queue.Settle(ctx, nil, batch...)
		lost, err := h.Queue.Settle(t.Context(), nil, batch...)
		if err != nil {
			t.Fatalf("Settle after a cancelled one: %v", err)
		}
		if len(lost) != n && (len(lost) != 0 || cancelErr == nil) {
			t.Errorf("a batch of %d whose context was cancelled midway, error %v: %d were settled, want all, or none and an error",
				n, cancelErr, len(lost))
		}
		return cancelErr
	})
}

// settleInTime settles jobs, and returns how many it has settled. Jobs may be lost only if that
// took longer than their lease, which expires at end or later.
func settleInTime(t *testing.T, h Harness, jobs []*queue.Job, end time.Time) int {
	t.Helper()
	lost, err := h.Queue.Settle(t.Context(), nil, outcomes(queue.Done, jobs...)...)
	if err != nil {
		t.Fatalf("Settle of %d outcomes: %v", len(jobs), err)
	}
	if len(lost) > 0 && time.Now().Before(end) {
		t.Errorf("Settle of %d outcomes before the lease has expired: %d are lost, want none", len(jobs), len(lost))
	}
	return len(jobs) - len(lost)
}

// testCancelClaim checks that if a cancelled claim has claimed jobs, they come back when the lease
// expires.
func testCancelClaim(t *testing.T, h Harness) {
	const n = 50
	whenCancelled(t, func(ctx context.Context, i int) error {
		enqueue(t, h, newJobs(n, nil)...)
		begun := time.Now()
		jobs, claimErr := h.Queue.Claim(ctx, short(request(n)))
		left := n
		if claimErr == nil {
			left -= settleInTime(t, h, jobs, begun.Add(shortLease))
		}
		for left > 0 {
			poll(t, "jobs of a cancelled claim", func() bool {
				if reclaimer, ok := driver.As[driver.Reclaimer](h.Queue); ok {
					if _, err := reclaimer.Reclaim(t.Context(), n); err != nil {
						t.Fatalf("Reclaim: %v", err)
					}
				}
				jobs = claim(t, h, request(n))
				return len(jobs) > 0
			})
			left -= len(jobs)
			settle(t, h, outcomes(queue.Done, jobs...)...)
		}
		return claimErr
	})
}
