package backendtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var txCases = []testCase{
	{"commit reveals", hasTx, testCommitReveals},
	{"rollback hides", hasTx, testRollbackHides},
	{"settle commits with it", hasTx, testSettleCommits},
	{"settle rolls back with it", hasTx, testSettleRollsBack},
	{"a stale settle in it", hasTx, testStaleInTx},
	{"settle and enqueue the next of a key", hasTx, testHandOver},
	{"an open settle keeps the job from reclaim", hasTx, testOpenSettle},
	{"extending beside an open settle", hasTx, testExtendBeside},
	{"a second settle beside an open one", hasTx, testSettleBeside},
	{"a key that is not yet committed", hasTx, testKeyBeside},
}

func begin(t *testing.T, h Harness) Tx {
	t.Helper()
	tx, err := h.Begin(t.Context())
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // where the case ended too early
	return tx
}

func commit(t *testing.T, tx Tx) {
	t.Helper()
	if err := tx.Commit(); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func rollback(t *testing.T, tx Tx) {
	t.Helper()
	if err := tx.Rollback(); err != nil {
		t.Fatalf("Rollback: %v", err)
	}
}

// wantNoneBeside checks that no job of the queue "q" can be claimed beside an open transaction. A
// backend where the claim has to wait for the transaction claims none either.
func wantNoneBeside(t *testing.T, h Harness, when string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if h.OneWriter { // elsewhere no claim waits, and one that is cancelled may still take jobs after the rollback
		ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
	}
	jobs, err := h.Queue.Claim(ctx, request(10))
	if err != nil && ctx.Err() == nil {
		t.Fatalf("Claim %s: %v", when, err)
	}
	if len(jobs) != 0 {
		t.Fatalf("Claim %s: got jobs %v, want none", when, ids(jobs))
	}
}

func testCommitReveals(t *testing.T, h Harness) {
	tx := begin(t, h)
	jobs := append(newJobs(2, nil), keyed("a"), keyed("a"))
	enqueueIn(t, h, tx, jobs[:1]...)
	enqueueIn(t, h, tx, jobs[1:3]...)
	enqueueIn(t, h, tx, jobs[3])
	wantDuplicate(t, "that a job of the same transaction holds", jobs[3], jobs[2])
	wantNoneBeside(t, h, "beside an open transaction")
	commit(t, tx)
	wantSameIDs(t, "claim after commit", claimAll(t, h, 3), jobs[:3])
}

func testRollbackHides(t *testing.T, h Harness) {
	tx := begin(t, h)
	enqueueIn(t, h, tx, newJob(), keyed("a"))
	rollback(t, tx)
	claimNone(t, h, "after rollback")
	wantNoJobs(t, h, "after rollback")
	free := keyed("a")
	enqueue(t, h, free)
	wantWritten(t, "whose job was rolled back", free)
}

func testSettleCommits(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(4, nil)...)
	held := claimAll(t, h, 4)
	boom := errors.New("boom")
	tx := begin(t, h)
	settleIn(t, h, tx,
		queue.Outcome{Job: held[0], Action: queue.Done},
		queue.Outcome{Job: held[1], Action: queue.Retry, Err: boom},
		queue.Outcome{Job: held[2], Action: queue.Dead, Err: boom},
		queue.Outcome{Job: held[3], Action: queue.Release})
	wantNoneBeside(t, h, "beside an open transaction that released jobs")
	commit(t, tx)
	wantDead(t, h, held[2].ID, "boom", 1)
	for _, j := range held {
		wantLost(t, h, "a job settled in a transaction that has committed", j)
	}
	wantSameIDs(t, "claim after commit", claimAll(t, h, 2), []*queue.Job{held[1], held[3]})
}

func testSettleRollsBack(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(4, nil)...)
	held := claimAll(t, h, 4)
	before, _ := lookUp(t, h, held[2].ID)
	tx := begin(t, h)
	var batch []queue.Outcome
	for i, j := range held {
		batch = append(batch, queue.Outcome{Job: j, Action: queue.OutcomeAction(i), Err: errors.New("boom")})
	}
	settleIn(t, h, tx, batch...)
	rollback(t, tx)
	wantUnchanged(t, h, "a Settle that was rolled back", before)
	claimNone(t, h, "after a Settle was rolled back")
	wantHeld(t, h, "after a Settle was rolled back", held...)
	settle(t, h, batch...)
}

func testStaleInTx(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(2, nil)...)
	held := claimAll(t, h, 2)
	stale := *held[0]
	stale.Fence++
	tx := begin(t, h)
	lost, err := h.Queue.Settle(t.Context(), tx, outcomes(queue.Done, &stale, held[1])...)
	if err != nil {
		t.Fatalf("Settle in a transaction: %v", err)
	}
	wantIDs(t, "lost by a Settle in a transaction", lost, []*queue.Job{&stale})
	lost, err = h.Queue.Settle(t.Context(), tx, outcomes(queue.Done, held[1])...)
	if err != nil {
		t.Fatalf("second Settle in a transaction: %v", err)
	}
	wantIDs(t, "lost by a second Settle in the same transaction", lost, held[1:])
	commit(t, tx)
	wantHeld(t, h, "of the job whose settle was stale", held[0])
}

func testHandOver(t *testing.T, h Harness) {
	first := keyed("a")
	enqueue(t, h, first)
	held := claimOne(t, h)
	handOver := func() (Tx, *queue.Job) {
		tx, next := begin(t, h), keyed("a")
		settleIn(t, h, tx, queue.Outcome{Job: held, Action: queue.Done})
		enqueueIn(t, h, tx, next)
		wantWritten(t, "that the same transaction has freed", next)
		return tx, next
	}
	tx, _ := handOver()
	rollback(t, tx)
	again := keyed("a")
	enqueue(t, h, again)
	wantDuplicate(t, "whose hand-over was rolled back", again, first)

	tx, next := handOver()
	commit(t, tx)
	enqueue(t, h, again)
	wantDuplicate(t, "that was handed over", again, next)
	wantIDs(t, "claim after the hand-over", claimAll(t, h, 1), []*queue.Job{next})
}

// testOpenSettle lets the leases of two jobs expire, one of which an open transaction has settled.
func testOpenSettle(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(2, nil)...)
	held := claim(t, h, short(request(2)))
	tx := begin(t, h)
	settleIn(t, h, tx, queue.Outcome{Job: held[0], Action: queue.Done})
	ctx, cancel := context.WithTimeout(t.Context(), 4*shortLease)
	defer cancel()
	poll(t, "the other job's lease to run out", func() bool {
		return reclaimsOne(ctx, t, h, held[0].ID) || ctx.Err() != nil
	})
	commit(t, tx)
	wantLost(t, h, "a job settled in a transaction that has committed", held[0])
	poll(t, "the other job to be due again", func() bool {
		reclaimsOne(t.Context(), t, h, held[0].ID)
		jobs := claim(t, h, request(10))
		return len(jobs) == 1 && jobs[0].ID == held[1].ID
	})
}

// reclaimsOne tries to reclaim, and checks that it does not get the locked job. A backend where
// Reclaim has to wait for the transaction gets none.
func reclaimsOne(ctx context.Context, t *testing.T, h Harness, locked int64) bool {
	t.Helper()
	reclaimer, ok := driver.As[driver.Reclaimer](h.Queue)
	if !ok {
		return false
	}
	jobs, err := reclaimer.Reclaim(ctx, 10)
	if err != nil && ctx.Err() == nil {
		t.Fatalf("Reclaim beside an open transaction: %v", err)
	}
	for _, j := range jobs {
		if j.ID == locked {
			t.Fatalf("Reclaim took job %d, which an open transaction had settled", locked)
		}
	}
	return len(jobs) > 0
}

// endWhile runs do in a goroutine, where it may wait for the open transaction. It gives do a moment
// to get there, ends the transaction, and returns when do has returned.
func endWhile(t *testing.T, tx Tx, commits bool, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Millisecond):
	}
	if commits {
		commit(t, tx)
	} else {
		rollback(t, tx)
	}
	<-done
}

// testExtendBeside extends a job while its handler settles it, as a heartbeat does: the job is not
// lost. In a backend where Extend has to wait, it may time out: with one write lock it always does.
func testExtendBeside(t *testing.T, h Harness) {
	enqueue(t, h, newJobs(2, nil)...)
	held := claimAll(t, h, 2)
	tx := begin(t, h)
	settleIn(t, h, tx, queue.Outcome{Job: held[0], Action: queue.Done})
	timeout := 2 * time.Second
	if h.OneWriter {
		timeout = 200 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	lost, _, err := h.Queue.Extend(ctx, longLease, held...)
	if err != nil && ctx.Err() == nil {
		t.Fatalf("Extend beside an open transaction: %v", err)
	}
	wantIDs(t, "lost by Extend beside an open transaction that settles the job", lost, nil)
	rollback(t, tx)
	wantHeld(t, h, "after the rollback", held...)
}

func testSettleBeside(t *testing.T, h Harness) {
	for _, commits := range []bool{true, false} {
		enqueue(t, h, newJob())
		done := queue.Outcome{Job: claimOne(t, h), Action: queue.Done}
		tx := begin(t, h)
		settleIn(t, h, tx, done)
		var lost []*queue.Job
		var err error
		endWhile(t, tx, commits, func() { lost, err = h.Queue.Settle(t.Context(), nil, done) })
		if err != nil || (len(lost) == 1) != commits {
			t.Errorf("Settle of a job that an open transaction had settled, which then ended (committed: %v): lost %v, error %v; want lost: %v",
				commits, ids(lost), err, commits)
		}
	}
}

func testKeyBeside(t *testing.T, h Harness) {
	for _, commits := range []bool{true, false} {
		first, second := keyed("a"), keyed("a")
		tx := begin(t, h)
		enqueueIn(t, h, tx, first)
		var err error
		endWhile(t, tx, commits, func() { err = h.Queue.Enqueue(t.Context(), nil, newJob(), second, newJob()) })
		if err != nil {
			t.Fatalf("Enqueue beside an open transaction that holds the key: %v", err)
		}
		if commits {
			wantDuplicate(t, "whose holder has committed meanwhile", second, first)
		} else {
			wantWritten(t, "whose holder has rolled back meanwhile", second)
		}
		settle(t, h, outcomes(queue.Done, claimAll(t, h, 3)...)...)
	}
}
