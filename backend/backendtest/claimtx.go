package backendtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var claimTxCases = []testCase{
	{"commit completes", hasTxClaimer, testClaimTxCommit},
	{"rollback makes the job pending again", hasTxClaimer, testClaimTxRollback},
	{"order and kinds", hasTxClaimer, testClaimTxOrder},
	{"nothing due", hasTxClaimer, testClaimTxNone},
	{"two transactions claim two jobs", hasTxClaimer, testClaimTxTwo},
	{"key", hasTxClaimer, testClaimTxKey},
	{"settling a failure", hasTxClaimer, testClaimTxSettle},
	{"failures count up to dead", hasTxClaimer, testClaimTxDies},
	{"settling once it has ended", hasTxClaimer, testClaimTxEnded},
	{"settling a stale claim", hasTxClaimer, testClaimTxStale},
}

// claimIn claims a job of the queue "q" in tx; nil if there is none.
func claimIn(t *testing.T, h Harness, tx Tx, kinds ...string) *queue.Job {
	t.Helper()
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	job, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"p", "q"}, Kinds: kinds})
	if err != nil {
		t.Fatalf("ClaimTx: %v", err)
	}
	return job
}

// wantClaimedTx checks that a claim in a transaction got that job.
func wantClaimedTx(t *testing.T, what string, got, want *queue.Job) {
	t.Helper()
	switch {
	case got == nil && want != nil:
		t.Fatalf("ClaimTx %s: got none, want job %d", what, want.ID)
	case got != nil && want == nil:
		t.Fatalf("ClaimTx %s: got job %d, want none", what, got.ID)
	case got != nil && got.ID != want.ID:
		t.Fatalf("ClaimTx %s: got job %d, want %d", what, got.ID, want.ID)
	}
}

func testClaimTxCommit(t *testing.T, h Harness) {
	j, next := newJob(), newJob()
	j.Headers = map[string]string{"a": "b"}
	enqueue(t, h, j)
	tx := begin(t, h)
	got := claimIn(t, h, tx)
	wantClaimedTx(t, "of one job", got, j)
	if got.Attempt != 1 || got.Headers["a"] != "b" || got.Kind != "k" || got.Queue != "q" {
		t.Errorf("ClaimTx: got %+v, want attempt 1, and the job's headers, kind and queue", got)
	}
	wantJSON(t, "payload", got.Payload, string(j.Payload))
	enqueueIn(t, h, tx, next)
	wantNoneBeside(t, h, "beside a claim in a transaction")
	commit(t, tx)
	wantIDs(t, "claim after the commit of one that also enqueued", claimAll(t, h, 1), []*queue.Job{next})
	if rec, ok := lookUp(t, h, j.ID); ok && rec.Status != queue.StatusCompleted {
		t.Errorf("status after commit: got %q, want completed, or no record", rec.Status)
	}
}

func testClaimTxRollback(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	before := claimOne(t, h)
	settle(t, h, queue.Outcome{Job: before, Action: queue.Release})
	rec, _ := lookUp(t, h, before.ID)
	for range 3 {
		tx := begin(t, h)
		got := claimIn(t, h, tx)
		wantClaimedTx(t, "of a job that is pending again", got, before)
		if got.Attempt != 1 {
			t.Errorf("ClaimTx: got attempt %d, want 1", got.Attempt)
		}
		wantClaimedTx(t, "of a second job in the same transaction", claimIn(t, h, tx), nil)
		rollback(t, tx)
		wantUnchanged(t, h, "ClaimTx and a rollback", rec)
	}
	wantIDs(t, "claim after rollbacks", claimAll(t, h, 1), []*queue.Job{before})
}

func testClaimTxOrder(t *testing.T, h Harness) {
	jobs := newJobs(4, nil)
	jobs[1].Priority = -1
	jobs[2].Kind = "other"
	jobs[3].Queue, jobs[3].Priority = "p", 9
	enqueue(t, h, jobs...)
	tx := begin(t, h)
	wantClaimedTx(t, "of the first queue", claimIn(t, h, tx), jobs[3])
	wantClaimedTx(t, "of a kind", claimIn(t, h, tx, "other"), jobs[2])
	wantClaimedTx(t, "by priority", claimIn(t, h, tx), jobs[1])
	wantClaimedTx(t, "of the last", claimIn(t, h, tx), jobs[0])
	commit(t, tx)
	claimNone(t, h, "after all were claimed in a transaction")
}

func testClaimTxNone(t *testing.T, h Harness) {
	running, later, other := newJob(), newJob(), newJob()
	later.Delay, other.Queue = time.Hour, "o"
	enqueue(t, h, running)
	held := claimOne(t, h)
	enqueue(t, h, later, other)
	tx := begin(t, h)
	wantClaimedTx(t, "where one is running, one due in an hour and one in another queue", claimIn(t, h, tx), nil)
	commit(t, tx)
	wantHeld(t, h, "of the running job", held)
}

func testClaimTxTwo(t *testing.T, h Harness) {
	jobs := newJobs(3, nil)
	enqueue(t, h, jobs...)
	if h.OneWriter {
		testClaimTxInTurn(t, h, jobs)
		return
	}
	tx1, tx2 := begin(t, h), begin(t, h)
	wantClaimedTx(t, "by the first transaction", claimIn(t, h, tx1), jobs[0])
	wantClaimedTx(t, "by the second transaction", claimIn(t, h, tx2), jobs[1])
	rollback(t, tx1)
	commit(t, tx2)
	wantIDs(t, "claim after one rollback and one commit", claimAll(t, h, 2), []*queue.Job{jobs[0], jobs[2]})
}

// testClaimTxInTurn is testClaimTxTwo for backends where the second transaction can claim only
// after the first has ended. The second then gets the job that the first has released or left.
func testClaimTxInTurn(t *testing.T, h Harness, jobs []*queue.Job) {
	for i, commits := range []bool{false, true} {
		first := begin(t, h)
		wantClaimedTx(t, "by the first transaction", claimIn(t, h, first), jobs[i])
		var got *queue.Job
		endWhile(t, first, commits, func() {
			second := begin(t, h)
			got = claimIn(t, h, second)
			commit(t, second)
		})
		want := jobs[i]
		if commits {
			want = jobs[i+1]
		}
		wantClaimedTx(t, fmt.Sprintf("by a second transaction, after the first has ended (committed: %v)", commits), got, want)
	}
	claimNone(t, h, "after three claims in transactions that have committed")
}

func testClaimTxKey(t *testing.T, h Harness) {
	first, second := keyed("a"), keyed("a")
	enqueue(t, h, first)
	tx := begin(t, h)
	wantClaimedTx(t, "of a job with a key", claimIn(t, h, tx), first)
	rollback(t, tx)
	enqueue(t, h, second)
	wantDuplicate(t, "after a rolled back claim", second, first)
	tx = begin(t, h)
	wantClaimedTx(t, "of a job with a key", claimIn(t, h, tx), first)
	commit(t, tx)
	enqueue(t, h, second)
	wantWritten(t, "after a committed claim", second)
}

var allActions = []queue.OutcomeAction{queue.Done, queue.Retry, queue.Dead, queue.Release}

// wantLostIn settles the job in tx, or through the backend's own handle if tx is nil, with every
// action. Each must report the job lost.
func wantLostIn(t *testing.T, h Harness, what string, tx queue.DB, job *queue.Job) {
	t.Helper()
	for _, action := range allActions {
		lost, err := h.Queue.Settle(t.Context(), tx, queue.Outcome{Job: job, Action: action})
		if err != nil || len(lost) != 1 {
			t.Errorf("Settle %v of a job that ClaimTx has claimed, %s: lost %v, error %v; want it lost", action, what, ids(lost), err)
		}
	}
}

func testClaimTxSettle(t *testing.T, h Harness) {
	for _, action := range allActions {
		for _, commits := range []bool{false, true} {
			j := newJob()
			enqueue(t, h, j)
			before, _ := lookUp(t, h, j.ID)
			tx := begin(t, h)
			got := claimIn(t, h, tx)
			wantClaimedTx(t, "of one job", got, j)
			settleIn(t, h, tx, queue.Outcome{Job: got, Action: action, Delay: time.Hour, Err: errors.New("boom")})
			wantLostIn(t, h, fmt.Sprintf("after %v", action), tx, got)
			if !commits {
				rollback(t, tx)
				wantUnchanged(t, h, fmt.Sprintf("ClaimTx, Settle %v and a rollback", action), before)
				settle(t, h, queue.Outcome{Job: claimOne(t, h)})
				continue
			}
			commit(t, tx)
			wantSettledTx(t, h, j, action)
		}
	}
}

// wantSettledTx checks the outcome of a job at its first attempt.
func wantSettledTx(t *testing.T, h Harness, j *queue.Job, action queue.OutcomeAction) {
	t.Helper()
	status, attempt, lastError := queue.StatusPending, 1, "boom"
	switch action {
	case queue.Done:
		status, lastError = queue.StatusCompleted, ""
	case queue.Dead:
		status = queue.StatusDead
	case queue.Release:
		attempt, lastError = 0, ""
	}
	r, ok := lookUp(t, h, j.ID)
	if ok && (r.Status != status || r.Attempt != attempt || r.LastError != lastError || r.Worker != "") {
		t.Errorf("record after ClaimTx, Settle %v and a commit: got %+v; want it %s after attempt %d, with error %q and no worker",
			action, r, status, attempt, lastError)
	}
	claimNone(t, h, fmt.Sprintf("after ClaimTx, Settle %v for an hour and a commit", action))
}

func testClaimTxDies(t *testing.T, h Harness) {
	j := newJob()
	j.MaxAttempts = 3
	enqueue(t, h, j)
	for attempt := 1; attempt <= 3; attempt++ {
		tx := begin(t, h)
		got := claimIn(t, h, tx)
		wantClaimedTx(t, "of a job that fails each time", got, j)
		if got.Attempt != attempt {
			t.Errorf("ClaimTx: got attempt %d, want %d", got.Attempt, attempt)
		}
		settleIn(t, h, tx, queue.Outcome{Job: got, Action: queue.Retry, Err: errors.New("boom")})
		commit(t, tx)
	}
	tx := begin(t, h)
	wantClaimedTx(t, "after the last attempt", claimIn(t, h, tx), nil)
	commit(t, tx)
	if r, ok := lookUp(t, h, j.ID); ok && (r.Status != queue.StatusDead || r.Attempt != 3) {
		t.Errorf("record after the last attempt: got %s after attempt %d, want dead after 3", r.Status, r.Attempt)
	}
}

func testClaimTxEnded(t *testing.T, h Harness) {
	for _, commits := range []bool{true, false} {
		j := newJob()
		enqueue(t, h, j)
		tx := begin(t, h)
		got := claimIn(t, h, tx)
		wantClaimedTx(t, "of one job", got, j)
		if commits {
			commit(t, tx)
		} else {
			rollback(t, tx)
		}
		what := fmt.Sprintf("once its transaction has ended (committed: %v)", commits)
		after, _ := lookUp(t, h, j.ID)
		wantLostIn(t, h, what, nil, got)
		tx = begin(t, h)
		wantLostIn(t, h, what+", in another", tx, got)
		commit(t, tx)
		wantUnchanged(t, h, "Settle "+what, after)
	}
}

func testClaimTxStale(t *testing.T, h Harness) {
	enqueue(t, h, newJob())
	tx := begin(t, h)
	first := claimIn(t, h, tx)
	settleIn(t, h, tx, queue.Outcome{Job: first, Action: queue.Release})
	second := claimIn(t, h, tx)
	wantClaimedTx(t, "of a job that the same transaction has released", second, first)
	wantLostIn(t, h, "and claimed anew", tx, first)
	forged := *second
	forged.Fence += 1000
	wantLostIn(t, h, "with a fence that was never drawn", tx, &forged)
	settleIn(t, h, tx, queue.Outcome{Job: second, Action: queue.Dead})
	commit(t, tx)
	claimNone(t, h, "after Settle in the transaction of the claim")
}
