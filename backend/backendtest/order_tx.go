package backendtest

import (
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

func testOrderLateCommit(t *testing.T, h Harness) {
	if h.OneWriter {
		return // the second enqueue waits for the first
	}
	low, high, last := ordered("a"), ordered("a"), ordered("a")
	tx := begin(t, h)
	enqueueIn(t, h, tx, low)
	enqueue(t, h, high, last)
	held := wantNext(t, h, "while a lower ID is not committed", high)
	commit(t, tx)
	claimNone(t, h, "of the lower ID while the higher one runs")
	settle(t, h, queue.Outcome{Job: held[0]})
	held = wantNext(t, h, "after the higher one", low)
	settle(t, h, queue.Outcome{Job: held[0]})
	wantNext(t, h, "after the lower one", last)
}

func testOrderRollback(t *testing.T, h Harness) {
	tx := begin(t, h)
	enqueueIn(t, h, tx, line("a", 2)...)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	a := line("a", 2)
	enqueue(t, h, a...)
	wantNext(t, h, "after a rollback", a[0])
}

func testOrderSettledInTx(t *testing.T, h Harness) {
	a := line("a", 2)
	enqueue(t, h, a...)
	held := wantNext(t, h, "of a group", a[0])
	for _, commits := range []bool{false, true} {
		tx := begin(t, h)
		settleIn(t, h, tx, queue.Outcome{Job: held[0]})
		if !h.OneWriter {
			claimNone(t, h, "before the transaction has ended")
		}
		if commits {
			commit(t, tx)
		} else if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		} else {
			claimNone(t, h, "after the rollback")
		}
	}
	wantNext(t, h, "after the commit", a[1])
}

func testOrderRedrive(t *testing.T, h Harness) {
	a := line("a", 3)
	enqueue(t, h, a...)
	settle(t, h, outcomes(queue.Dead, wantNext(t, h, "of a group", a[0])...)...)
	held := wantNext(t, h, "after the dead job", a[1])
	redrive(t, h, queue.Selection{IDs: []int64{a[0].ID}}, 1)
	claimNone(t, h, "of the redriven job while a later one runs")
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Release})
	held = wantNext(t, h, "when the later one is released", a[0])
	settle(t, h, queue.Outcome{Job: held[0]})
	held = wantNext(t, h, "after the redriven job", a[1])
	settle(t, h, queue.Outcome{Job: held[0]})
	wantNext(t, h, "at last", a[2])
}

func testOrderClaimTx(t *testing.T, h Harness) {
	a, plain := line("a", 2), newJob()
	enqueue(t, h, a...)
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	tx := begin(t, h)
	if job, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"q"}}); job != nil || err != nil {
		t.Fatalf("ClaimTx beside ordered jobs: got %v, error %v; want none", job, err)
	}
	enqueueIn(t, h, tx, ordered("b"), plain)
	job, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"q"}})
	if err != nil || job == nil || job.ID != plain.ID {
		t.Fatalf("ClaimTx beside ordered jobs and another: got %v, error %v; want job %d", job, err, plain.ID)
	}
	commit(t, tx)
}

func testOrderEdit(t *testing.T, h Harness) {
	p := neighbour(t, h)
	a, other := line("a", 3), newJob()
	enqueue(t, h, a...)
	urgent := int32(-9)
	edit(t, h, nil, queue.Selection{Group: "a"}, queue.JobChange{Priority: &urgent}, 3)
	enqueue(t, h, other)
	wantInOrder(t, h, "claim after an edit of the priority", claim(t, h, request(5)), []*queue.Job{other, a[0]})
	edit(t, h, nil, byID(a[1]), queue.JobChange{Queue: p}, 1)
	req := request(5)
	req.Queues = []string{p}
	wantIDs(t, "claim of the queue that a job has moved to", claim(t, h, req), a[1:2])
	claimNone(t, h, "of the third job while the first one runs")
}

func testOrderCancel(t *testing.T, h Harness) {
	a := line("a", 2)
	a[0].Delay = time.Hour
	enqueue(t, h, a...)
	claimNone(t, h, "while the first job is scheduled")
	canceller, _ := driver.As[driver.Canceller](h.Queue)
	if n, err := canceller.Cancel(t.Context(), nil, byID(a[0])); n != 1 || err != nil {
		t.Fatalf("Cancel: got %d, error %v; want 1", n, err)
	}
	wantNext(t, h, "when it is cancelled", a[1])
}
