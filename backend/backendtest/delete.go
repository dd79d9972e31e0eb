package backendtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var deleteCases = []testCase{
	{"each status", hasEditor | hasCanceller, testDeleteStatuses},
	{"a held job", hasEditor | holds, testDeleteHeld},
	{"never what runs", hasEditor, testDeleteRunning},
	{"by each field", hasEditor, deleting.testFields},
	{"a key is free", hasEditor, testDeleteKey},
	{"the next job of a group", hasEditor, testDeleteOrdered},
	{"the next job of a group, awaited", hasEditor | hasWakeUps, testDeleteWakes},
	{"a limited queue", hasEditor | hasRuler | isInOrder, testDeleteLimited},
	{"results", hasEditor | hasResults, testDeleteResults},
	{"in a transaction", hasEditor | hasTx, testDeleteInTx},
	{"what another transaction has claimed", hasEditor | hasTxClaimer, deleting.testBesideClaimTx},
	{"what the transaction has claimed", hasEditor | hasTxClaimer, testDeleteOwnClaimTx},
	{"beside claims", hasEditor, testDeleteBesideClaims},
	{"2,500 jobs", hasEditor, testDeleteMany},
	{"a bad filter", hasEditor, deleting.testBad},
}

// deleteJobs deletes and checks how many jobs there were.
func deleteJobs(t *testing.T, h Harness, db queue.DB, which queue.Selection, want int) {
	t.Helper()
	deleting.run(t, h, db, which, want)
}

// wantGone checks that there is no such job.
func wantGone(t *testing.T, h Harness, when string, jobs ...*queue.Job) {
	t.Helper()
	for _, j := range jobs {
		if r, ok := lookUp(t, h, j.ID); ok {
			t.Errorf("job %d %s: got %+v, want none", j.ID, when, r)
		}
	}
}

// testDeleteStatuses deletes jobs of one status after the other, and no others.
func testDeleteStatuses(t *testing.T, h Harness) {
	jobs := newJobs(5, nil)
	enqueue(t, h, jobs...)
	held := claim(t, h, request(3))
	settle(t, h, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: queue.Dead, Err: errors.New("boom")})
	cancelJobs(t, h, byID(jobs[3]), 1)
	statuses := []queue.Status{queue.StatusCompleted, queue.StatusDead, queue.StatusRunning, queue.StatusCancelled, queue.StatusPending}
	if !can[driver.Inspector](h) {
		statuses[0] = "" // it may not be kept
	}
	for i, status := range statuses {
		if status == queue.StatusRunning || status == "" {
			continue
		}
		wantStatus(t, h, "before Delete", jobs[i].ID, status)
		deleteJobs(t, h, nil, queue.Selection{Queue: "q", Status: status}, 1)
		wantGone(t, h, fmt.Sprintf("that was %s, after Delete", status), jobs[i])
		deleteJobs(t, h, nil, queue.Selection{IDs: []int64{jobs[i].ID}}, 0)
	}
	deleteJobs(t, h, nil, queue.Selection{Queue: "q", Status: queue.StatusFailed}, 0)
	wantHeld(t, h, "beside deleted jobs", held[2])
	claimNone(t, h, "after Delete")
	next := newJob()
	enqueue(t, h, next)
	if next.ID <= jobs[4].ID {
		t.Errorf("ID after a Delete: got %d, want more than %d, the last one before", next.ID, jobs[4].ID)
	}
}

func testDeleteHeld(t *testing.T, h Harness) {
	first, second := ordered("g"), ordered("g")
	enqueue(t, h, first, second)
	hold(t, h, first)
	claimNone(t, h, "behind a held job")
	deleteJobs(t, h, nil, queue.Selection{Group: "g", Status: queue.StatusHeld}, 1)
	wantGone(t, h, "that was held, after Delete", first)
	wantIDs(t, "claim after the held job was deleted", claimAll(t, h, 1), []*queue.Job{second})
}

// testDeleteRunning: a job that runs is left to its worker, whatever chooses it. Once it has been
// given back, it can be deleted, and its worker has lost it.
func testDeleteRunning(t *testing.T, h Harness) {
	j := keyed("a")
	enqueue(t, h, j)
	held := claimOne(t, h)
	before, _ := lookUp(t, h, j.ID)
	for _, which := range []queue.Selection{byID(j), {Queue: "q"}, {Kind: "k"}, {Key: "a"}} {
		deleteJobs(t, h, nil, which, 0)
	}
	wantUnchanged(t, h, "Delete", before)
	wantHeld(t, h, "after Delete", held)
	settle(t, h, queue.Outcome{Job: held, Action: queue.Release})
	deleteJobs(t, h, nil, byID(j), 1)
	for _, action := range []queue.OutcomeAction{queue.Done, queue.Retry} {
		lost, err := h.Queue.Settle(t.Context(), nil, queue.Outcome{Job: held, Action: action})
		if err != nil || len(lost) != 1 {
			t.Errorf("Settle of a deleted job: lost %v, error %v; want it lost", ids(lost), err)
		}
	}
	if lost, _, err := h.Queue.Extend(t.Context(), longLease, held); err != nil || len(lost) != 1 {
		t.Errorf("Extend of a deleted job: lost %v, error %v; want it lost", ids(lost), err)
	}
	wantGone(t, h, "after Settle", j)
}

func testDeleteKey(t *testing.T, h Harness) {
	j := keyed("a")
	enqueue(t, h, j)
	deleteJobs(t, h, nil, queue.Selection{Key: "a"}, 1)
	again := keyed("a")
	enqueue(t, h, again)
	if again.Duplicate || again.ID == j.ID {
		t.Errorf("the key of a deleted job: got Duplicate %v, ID %d; want a new job", again.Duplicate, again.ID)
	}
	wantIDs(t, "claim after Delete", claimAll(t, h, 1), []*queue.Job{again})
}

// testDeleteOrdered: the first job, one in the middle and the last one of a group.
func testDeleteOrdered(t *testing.T, h Harness) {
	jobs := line("g", 5)
	enqueue(t, h, jobs...)
	deleteJobs(t, h, nil, byID(jobs[0], jobs[2], jobs[4]), 3)
	for _, want := range []*queue.Job{jobs[1], jobs[3]} {
		held := wantNext(t, h, "of a group with gaps", want)
		deleteJobs(t, h, nil, byID(held...), 0)
		settle(t, h, outcomes(queue.Done, held...)...)
	}
	claimNone(t, h, "after the last job of a group")
	enqueue(t, h, line("g", 1)...)
	claimOne(t, h)
}

// testDeleteWakes: a scheduled job keeps its group waiting. When it is deleted, a sleeping worker
// learns that the next one is due.
func testDeleteWakes(t *testing.T, h Harness) {
	d := listens(t, h, "w", []string{"q"}, func() { enqueue(t, h, newJob()) })
	var first []*queue.Job
	for i := range tries {
		jobs := line(fmt.Sprint(i), 2)
		jobs[0].Delay = time.Hour
		enqueue(t, h, jobs...)
		first = append(first, jobs[0])
	}
	wantPrompt(t, h, d, "Delete", func() {
		deleteJobs(t, h, nil, byID(first[0]), 1)
		first = first[1:]
	})
}

// testDeleteLimited: what is deleted takes no place under a limit.
func testDeleteLimited(t *testing.T, h Harness) {
	setRules(t, h, queue.Rule{Queue: "q", Running: 1, Share: 1})
	jobs := newJobs(3, func(i int, j *queue.Job) { j.Group = []string{"a", "b", "b"}[i] })
	enqueue(t, h, jobs...)
	held := claim(t, h, request(3))
	if len(held) != 1 {
		t.Fatalf("claim with a limit of 1: got %v", ids(held))
	}
	deleteJobs(t, h, nil, queue.Selection{Queue: "q"}, 2)
	settle(t, h, outcomes(queue.Done, held...)...)
	next := newJob()
	enqueue(t, h, next)
	wantIDs(t, "claim after Delete", claim(t, h, request(3)), []*queue.Job{next})
}

func testDeleteResults(t *testing.T, h Harness) {
	jobs := newJobs(2, nil)
	enqueue(t, h, jobs...)
	held := claimAll(t, h, 2)
	if err := keeper(h).KeepProgress(t.Context(), queue.Progress{Job: held[0], Value: json.RawMessage(`1`)}); err != nil {
		t.Fatalf("KeepProgress: %v", err)
	}
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Dead}, queue.Outcome{Job: held[1], Output: json.RawMessage(`2`)})
	for _, j := range jobs {
		if _, ok := result(t, h, j.ID); !ok {
			continue // a completed job is not kept
		}
		deleteJobs(t, h, nil, byID(j), 1)
		if r, ok := result(t, h, j.ID); ok {
			t.Errorf("result of a deleted job: got %+v, want none", r)
		}
	}
}

func testDeleteInTx(t *testing.T, h Harness) {
	jobs := []*queue.Job{keyed("a"), newJob()}
	enqueue(t, h, jobs...)
	tx := begin(t, h)
	deleteJobs(t, h, tx, queue.Selection{Queue: "q"}, 2)
	deleteJobs(t, h, tx, queue.Selection{Queue: "q"}, 0)
	wantNoneBeside(t, h, "beside an open Delete")
	rollback(t, tx)
	wantStatus(t, h, "after a rollback", jobs[0].ID, queue.StatusPending)
	again := keyed("a")
	enqueue(t, h, again)
	wantDuplicate(t, "that a job holds whose Delete was rolled back", again, jobs[0])
	wantIDs(t, "claim after a rollback", claimAll(t, h, 2), jobs)

	jobs = []*queue.Job{keyed("b"), newJob()}
	enqueue(t, h, jobs...)
	tx = begin(t, h)
	own, next := newJob(), keyed("b")
	enqueueIn(t, h, tx, own)
	deleteJobs(t, h, tx, byID(jobs[0], jobs[1], own), 3)
	enqueueIn(t, h, tx, next)
	if next.Duplicate {
		t.Error("the key of a job that the transaction has deleted is not free within it")
	}
	commit(t, tx)
	wantGone(t, h, "after the commit", jobs[0], jobs[1], own)
	wantIDs(t, "claim after the commit", claimAll(t, h, 1), []*queue.Job{next})
}

// testDeleteOwnClaimTx: a job that a transaction has claimed and deleted cannot be settled in it.
func testDeleteOwnClaimTx(t *testing.T, h Harness) {
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	j := newJob()
	enqueue(t, h, j)
	tx := begin(t, h)
	held, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"q"}})
	if err != nil || held == nil {
		t.Fatalf("ClaimTx: got %v, error %v", held, err)
	}
	deleteJobs(t, h, tx, byID(j), 1)
	lost, err := h.Queue.Settle(t.Context(), tx, queue.Outcome{Job: held, Action: queue.Retry})
	if err != nil || len(lost) != 1 {
		t.Errorf("Settle of a job that the transaction has deleted: lost %v, error %v; want it lost", ids(lost), err)
	}
	commit(t, tx)
	wantGone(t, h, "after the commit", j)
	claimNone(t, h, "after the commit")
}

// testDeleteBesideClaims: whatever claims do meanwhile, each job is either deleted or held by the
// worker that has claimed it, and Delete misses none that waits.
func testDeleteBesideClaims(t *testing.T, h Harness) {
	editor, _ := driver.As[driver.Editor](h.Queue)
	jobs := newJobs(400, nil)
	enqueue(t, h, jobs...)
	var held [4][]*queue.Job
	var wg sync.WaitGroup
	for i := range held {
		wg.Go(func() {
			req := request(7)
			req.Worker = fmt.Sprint("w", i)
			for range 10 {
				more, err := h.Queue.Claim(t.Context(), req)
				if err != nil {
					t.Errorf("Claim: %v", err)
					return
				}
				held[i] = append(held[i], more...)
			}
		})
	}
	n, err := editor.Delete(t.Context(), nil, queue.Selection{Queue: "q"})
	wg.Wait()
	if err != nil {
		t.Fatalf("Delete beside claims: %v", err)
	}
	claimed := 0
	for _, mine := range held {
		wantHeld(t, h, "beside a Delete", mine...)
		claimed += len(mine)
	}
	if n+claimed != len(jobs) {
		t.Errorf("beside claims: %d jobs were deleted and %d claimed, want %d together", n, claimed, len(jobs))
	}
	claimNone(t, h, "after all jobs were deleted or claimed")
}

func testDeleteMany(t *testing.T, h Harness) {
	jobs := newJobs(2500, func(i int, j *queue.Job) { j.Priority, j.Kind = int32(i%3), []string{"k", "l"}[i%2] })
	enqueue(t, h, jobs...)
	held := claim(t, h, request(10))
	deleteJobs(t, h, nil, queue.Selection{Queue: "q"}, len(jobs)-len(held))
	wantHeld(t, h, "after Delete of many", held...)
	claimNone(t, h, "after Delete of all")
}
