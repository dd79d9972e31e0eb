package backendtest

import (
	"testing"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func testReplaceRollback(t *testing.T, h Harness) {
	running, pending := keyed("r"), keyed("p")
	enqueue(t, h, running)
	held := claimOne(t, h)
	enqueue(t, h, pending)
	before, _ := lookUp(t, h, pending.ID)
	tx := begin(t, h)
	next := []*queue.Job{replacing("p"), replacing("r")}
	enqueueIn(t, h, tx, next...)
	wantReplaced(t, "in a transaction", next[0], pending)
	wantNew(t, "that a running job holds, in a transaction", next[1])
	rollback(t, tx)
	wantUnchanged(t, h, "a replacement that was rolled back", before)
	wantHeld(t, h, "after a replacement was rolled back", held)
	kept := keyed("r")
	enqueue(t, h, kept)
	wantDuplicate(t, "whose replacement was rolled back", kept, running)
	wantClaimed(t, claimOne(t, h), pending)
	settle(t, h, queue.Outcome{Job: held, Action: queue.Retry})
	enqueue(t, h, kept)
	wantDuplicate(t, "of a retried job, whose replacement was rolled back", kept, running)
}

func testReplaceInTx(t *testing.T, h Harness) {
	running, pending := keyed("r"), keyed("p")
	enqueue(t, h, running)
	held := claimOne(t, h)
	enqueue(t, h, pending)
	tx := begin(t, h)
	jobs := []*queue.Job{replacing("r"), replacing("r"), replacing("p"), replacing("p")}
	for _, j := range jobs {
		enqueueIn(t, h, tx, j)
	}
	wantNoneBeside(t, h, "beside an open transaction that has replaced")
	wantNew(t, "that a running job holds", jobs[0])
	wantReplaced(t, "of the same transaction", jobs[1], jobs[0])
	wantReplaced(t, "in a transaction", jobs[3], pending)
	settleIn(t, h, tx, queue.Outcome{Job: held, Action: queue.Retry})
	commit(t, tx)
	all := claimAll(t, h, 3)
	wantSameIDs(t, "claim after commit", all, []*queue.Job{running, jobs[1], pending})
	for _, j := range all {
		if j.ID == pending.ID {
			wantJSON(t, "payload", j.Payload, string(jobs[3].Payload))
		}
	}
}

func testReplaceClaimTx(t *testing.T, h Harness) {
	first, second := keyed("a"), replacing("a")
	enqueue(t, h, first)
	tx := begin(t, h)
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	got, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"q"}})
	if err != nil || got == nil {
		t.Fatalf("ClaimTx: got %v, error %v", got, err)
	}
	enqueueIn(t, h, tx, second)
	wantNew(t, "that the same transaction has claimed", second)
	commit(t, tx)
	wantClaimed(t, claimOne(t, h), second)
}

// testReplaceBeside replaces what an open transaction has replaced or claimed.
func testReplaceBeside(t *testing.T, h Harness) {
	for _, commits := range []bool{true, false} {
		pending, running := keyed("p"), keyed("r")
		enqueue(t, h, running)
		held := claimOne(t, h)
		enqueue(t, h, pending)
		tx := begin(t, h)
		enqueueIn(t, h, tx, replacing("p"), replacing("r"))
		later := []*queue.Job{replacing("r"), newJob(), replacing("p")}
		var err error
		endWhile(t, tx, commits, func() { err = h.Queue.Enqueue(t.Context(), nil, later...) })
		if err != nil {
			t.Fatalf("Enqueue with Replace beside an open one: %v", err)
		}
		wantReplaced(t, "beside an open transaction", later[2], pending)
		if later[0].Replaced != commits {
			t.Fatalf("Replace of a running job's key beside an open one, which then ended (committed: %v): got Replaced %v", commits, later[0].Replaced)
		}
		all := claimAll(t, h, 3)
		wantSameIDs(t, "claim", all, later)
		settle(t, h, outcomes(queue.Done, append(all, held)...)...)
	}
}

// testExtendBesideReplace: a job whose key an open transaction is taking is not lost.
func testExtendBesideReplace(t *testing.T, h Harness) {
	if h.OneWriter {
		t.Skip("an open transaction that writes keeps everybody from writing")
	}
	enqueue(t, h, keyed("a"), newJob())
	held := claimAll(t, h, 2)
	tx := begin(t, h)
	enqueueIn(t, h, tx, replacing("a"))
	wantHeld(t, h, "beside an open transaction that takes the key", held...)
	commit(t, tx)
	wantHeld(t, h, "after it", held...)
	settle(t, h, outcomes(queue.Done, held...)...)
}
