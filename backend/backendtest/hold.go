package backendtest

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/errandhq/errand/engine"
	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

// holdCases are of ordered jobs under the rule queue.HoldDead.
var holdCases = []testCase{
	{"a job that fails its last attempt", hasRuler | hasEditor, testHoldFailed},
	{"a discarded job", hasRuler | hasCanceller, testHoldDiscarded},
	{"a crash in the last attempt", hasRuler | hasReclaimer | hasEditor, testHoldCrashed},
	{"other jobs are dead", hasRuler | hasReclaimer, testHoldOthers},
	{"run now, and held again", hasRuler | hasEditor, testHoldRunNow},
	{"redrive by group", hasRuler | hasEditor, testHoldRedrive},
	{"its key", hasRuler | hasEditor | isInOrder, testHoldKey},
	{"a job that is to be cancelled", hasRuler | hasCanceller | hasReclaimer, testHoldCancelled},
	{"a rule that changes meanwhile", hasRuler | hasEditor, testHoldChanged},
	{"settled in a transaction", hasRuler | hasTx, testHoldInTx},
	{"a rule with only OnDead limits nothing", hasRuler | isInOrder, testHoldUnlimited},
	{"a transaction claims beside it", hasRuler | hasTxClaimer, testHoldClaimTx},
	{"in a limited queue", hasRuler | hasCanceller | isInOrder, testHoldLimited},
	{"a lower ID that commits late", hasRuler | hasTx, testHoldLateCommit},
	{"OnDead is called", hasRuler, testHoldOnDead},
}

var holdDead = queue.Rule{Queue: "q", OnDead: queue.HoldDead}

// failing returns n ordered jobs of the group that have one attempt each.
func failing(group string, n int) []*queue.Job {
	return newJobs(n, func(_ int, j *queue.Job) { j.Group, j.Ordered, j.MaxAttempts = group, true, 1 })
}

// settleNext claims the next job of a group, which has to be job, and settles it with that action.
func settleNext(t *testing.T, h Harness, when string, action queue.OutcomeAction, job *queue.Job) {
	t.Helper()
	o := queue.Outcome{Job: wantNext(t, h, when, job)[0], Action: action, Err: errors.New("boom")}
	settle(t, h, o)
}

func testHoldFailed(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	a, b := failing("a", 2), line("b", 2)
	a[0].MaxAttempts = 2
	enqueue(t, h, append(a, b...)...)
	held := wantNext(t, h, "of two groups", a[0], b[0])
	settle(t, h, queue.Outcome{Job: find(held, b[0])},
		queue.Outcome{Job: find(held, a[0]), Action: queue.Retry, Err: errors.New("boom")})
	wantStatus(t, h, "after its first attempt", a[0].ID, queue.StatusPending)
	held = wantNext(t, h, "after a retry at once", a[0], b[1])
	settle(t, h, queue.Outcome{Job: find(held, b[1])},
		queue.Outcome{Job: find(held, a[0]), Action: queue.Retry, Delay: time.Hour, Err: errors.New("boom")})
	wantStatus(t, h, "after its last attempt", a[0].ID, queue.StatusHeld)
	if r, ok := lookUp(t, h, a[0].ID); ok && (r.Attempt != 2 || r.LastError != "boom" || len(r.History) != 2 ||
		!r.FinishedAt.IsZero() || !r.StartedAt.IsZero() || r.Fence != 0 || r.Worker != "") {
		t.Errorf("record of a held job: got %+v, want 2 attempts and failures, no StartedAt, FinishedAt, Fence and Worker", r)
	}
	claimNone(t, h, "while the first job is held")
	redrive(t, h, byID(a[0]), 0) // it is not dead
	redrive(t, h, queue.Selection{IDs: []int64{a[0].ID}, Status: queue.StatusHeld}, 1)
	again := wantNext(t, h, "after Redrive", a[0])
	if again[0].Attempt != 1 || again[0].LastError != "" {
		t.Errorf("claim after Redrive: got attempt %d, LastError %q; want 1, none", again[0].Attempt, again[0].LastError)
	}
	settle(t, h, queue.Outcome{Job: again[0]})
	wantNext(t, h, "when it is completed", a[1])
}

func testHoldDiscarded(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	a := line("a", 3)
	enqueue(t, h, a...)
	settleNext(t, h, "of a group", queue.Dead, a[0])
	wantStatus(t, h, "after Discard", a[0].ID, queue.StatusHeld)
	if r, ok := lookUp(t, h, a[0].ID); ok && (r.Attempt != 1 || r.LastError != "boom") {
		t.Errorf("record of a held job: got attempt %d, LastError %q; want 1, boom", r.Attempt, r.LastError)
	}
	claimNone(t, h, "while the first job is held")
	cancelJobs(t, h, byID(a[0]), 1)
	wantStatus(t, h, "after Cancel", a[0].ID, queue.StatusCancelled)
	wantNext(t, h, "after Cancel", a[1])
}

func testHoldCrashed(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	a := failing("a", 2)
	a[0].MaxAttempts = 2
	enqueue(t, h, a...)
	for attempt := 1; attempt <= 2; attempt++ {
		wantIDs(t, "claim that crashes", claimSoon(t, h, short(request(10)), 1), a[:1])
		if got := awaitReclaim(t, h, 1); got[0].Attempt != attempt {
			t.Errorf("reclaimed job: got attempt %d, want %d", got[0].Attempt, attempt)
		}
	}
	wantStatus(t, h, "after a crash in its last attempt", a[0].ID, queue.StatusHeld)
	if r, ok := lookUp(t, h, a[0].ID); ok && (r.Attempt != 2 || r.LastError == "" || len(r.History) != 2 ||
		!r.FinishedAt.IsZero() || !r.StartedAt.IsZero() || r.Fence != 0 || r.Worker != "") {
		t.Errorf("record of a held job: got %+v, want 2 attempts and failures, no StartedAt, FinishedAt, Fence and Worker", r)
	}
	claimNone(t, h, "while the first job is held")
	edit(t, h, nil, byID(a[0]), queue.JobChange{RunNow: true}, 1)
	settle(t, h, queue.Outcome{Job: wantNext(t, h, "after an edit", a[0])[0]})
	wantNext(t, h, "when it is completed", a[1])
}

// testHoldOthers: the rule holds no job that is not ordered, nor one of another queue.
func testHoldOthers(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	plain, grouped, other, crashed := newJob(), newJob(), failing("a", 2), newJob()
	plain.MaxAttempts, grouped.MaxAttempts, crashed.MaxAttempts = 1, 1, 1
	grouped.Group, crashed.Group = "a", "a"
	other[0].Queue, other[1].Queue = "p", "p"
	enqueue(t, h, plain, grouped, other[0], other[1])
	req := request(10)
	req.Queues = []string{"q", "p"}
	settle(t, h, outcomes(queue.Retry, claim(t, h, req)...)...)
	for _, j := range []*queue.Job{plain, grouped, other[0]} {
		wantStatus(t, h, "that the rule does not concern", j.ID, queue.StatusDead)
	}
	wantIDs(t, "claim of the queue without the rule", claim(t, h, req), other[1:])
	enqueue(t, h, crashed)
	claim(t, h, short(request(1)))
	awaitReclaim(t, h, 1)
	wantStatus(t, h, "that the rule does not concern, after a crash", crashed.ID, queue.StatusDead)
}

func testHoldRunNow(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	a := failing("a", 2)
	enqueue(t, h, a...)
	settleNext(t, h, "of a group", queue.Retry, a[0])
	edit(t, h, nil, byID(a[0]), queue.JobChange{Delay: time.Hour}, 1)
	wantStatus(t, h, "after an edit without RunNow", a[0].ID, queue.StatusHeld)
	for range 2 {
		edit(t, h, nil, byID(a[0]), queue.JobChange{RunNow: true}, 1)
		settleNext(t, h, "after an edit", queue.Retry, a[0])
		wantStatus(t, h, "that has failed again", a[0].ID, queue.StatusHeld)
	}
	edit(t, h, nil, byID(a[0]), queue.JobChange{RunNow: true, MaxAttempts: 5}, 1)
	again := wantNext(t, h, "with more attempts", a[0])
	if again[0].Attempt != 4 || again[0].LastError != "boom" {
		t.Errorf("claim of the fourth run: got attempt %d, LastError %q; want 4, boom", again[0].Attempt, again[0].LastError)
	}
	settle(t, h, queue.Outcome{Job: again[0], Action: queue.Retry})
	settleNext(t, h, "while it has attempts left", queue.Done, a[0])
	wantNext(t, h, "when it is completed", a[1])
}

func testHoldRedrive(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	var first []*queue.Job
	for _, group := range []string{"a", "b", "c"} {
		jobs := failing(group, 2)
		first = append(first, jobs[0])
		enqueue(t, h, jobs...)
	}
	settle(t, h, outcomes(queue.Retry, wantNext(t, h, "of three groups", first...)...)...)
	redrive(t, h, queue.Selection{Queue: "q"}, 0)
	redrive(t, h, queue.Selection{Group: "b", Status: queue.StatusHeld}, 1)
	wantNext(t, h, "after Redrive of one group", first[1])
	redrive(t, h, queue.Selection{Queue: "q", Status: queue.StatusHeld}, 2)
	wantNext(t, h, "after Redrive of all", first[0], first[2])
}

// testHoldKey: a held job keeps its key, and Redrive does not take it for another's.
func testHoldKey(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	job, same := failing("a", 1)[0], ordered("b")
	job.Key, same.Key = "x", "x"
	enqueue(t, h, job)
	settleNext(t, h, "of a group", queue.Dead, job)
	enqueue(t, h, same)
	wantDuplicate(t, "that a held job has", same, job)
	redrive(t, h, queue.Selection{Key: "x", Status: queue.StatusHeld}, 1)
	wantNext(t, h, "after Redrive", job)
}

// testHoldCancelled: a job that somebody has cancelled is not held.
func testHoldCancelled(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	a, b, c := failing("a", 2), failing("b", 2), failing("c", 2)
	enqueue(t, h, a[0], a[1], b[0], b[1])
	held := wantNext(t, h, "of two groups", a[0], b[0])
	cancelJobs(t, h, byID(held...), 2)
	settle(t, h, queue.Outcome{Job: find(held, a[0]), Action: queue.Retry}, queue.Outcome{Job: find(held, b[0]), Action: queue.Dead})
	wantStatus(t, h, "that was cancelled and has failed", a[0].ID, queue.StatusCancelled)
	wantStatus(t, h, "that was cancelled and is discarded", b[0].ID, queue.StatusDead)
	wantNext(t, h, "of both groups", a[1], b[1])
	enqueue(t, h, c...)
	wantIDs(t, "claim that crashes", claim(t, h, short(request(10))), c[:1])
	cancelJobs(t, h, byID(c[0]), 1)
	awaitReclaim(t, h, 1)
	wantStatus(t, h, "that was cancelled and has crashed", c[0].ID, queue.StatusCancelled)
	wantNext(t, h, "of the third group", c[1])
}

// testHoldChanged: the rule counts when the run ends. It changes no job that has ended, or is held.
func testHoldChanged(t *testing.T, h Harness) {
	a := failing("a", 4)
	enqueue(t, h, a...)
	settleNext(t, h, "without a rule", queue.Retry, a[0])
	wantStatus(t, h, "that has failed without a rule", a[0].ID, queue.StatusDead)
	running := wantNext(t, h, "after a dead job", a[1])
	setRules(t, h, holdDead)
	wantStatus(t, h, "that was dead before the rule", a[0].ID, queue.StatusDead)
	settle(t, h, outcomes(queue.Retry, running...)...)
	wantStatus(t, h, "whose rule was set while it ran", a[1].ID, queue.StatusHeld)
	setRules(t, h, queue.Rule{Queue: "q"})
	claimNone(t, h, "while a job is held whose rule is removed")
	redrive(t, h, queue.Selection{Group: "a", Status: queue.StatusHeld}, 1)
	settleNext(t, h, "after Redrive", queue.Retry, a[1])
	wantStatus(t, h, "after the rule was removed", a[1].ID, queue.StatusDead)
	setRules(t, h, holdDead)
	running = wantNext(t, h, "with a rule again", a[2])
	setRules(t, h, queue.Rule{Queue: "q", OnDead: queue.PassDead})
	settle(t, h, outcomes(queue.Dead, running...)...)
	wantStatus(t, h, "whose rule was removed while it ran", a[2].ID, queue.StatusDead)
	wantNext(t, h, "at last", a[3])
}

func testHoldInTx(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	a := failing("a", 2)
	enqueue(t, h, a...)
	held := wantNext(t, h, "of a group", a[0])
	for _, commits := range []bool{false, true} {
		tx := begin(t, h)
		settleIn(t, h, tx, queue.Outcome{Job: held[0], Action: queue.Retry})
		if commits {
			commit(t, tx)
		} else if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		} else {
			wantHeld(t, h, "after the rollback", held...)
		}
	}
	wantStatus(t, h, "after the commit", a[0].ID, queue.StatusHeld)
	claimNone(t, h, "after the commit")
}

func testHoldUnlimited(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	wantRules(t, h, "with OnDead", holdDead)
	a, plain := line("a", 2), newJobs(3, func(i int, j *queue.Job) { j.Group = []string{"", "a", "b"}[i] })
	enqueue(t, h, append(plain, a...)...)
	req := request(10)
	req.Ahead = 10 // a limited queue is not claimed ahead
	got := claim(t, h, req)
	wantSameIDs(t, "claim ahead beside a rule with only OnDead", got, append(plain, a[0]))
	for _, j := range got {
		if j.Limited {
			t.Errorf("job %d of a queue whose rule has only OnDead is Limited", j.ID)
		}
	}
	limit := holdDead
	limit.Running = 1
	setRules(t, h, limit)
	wantRules(t, h, "with a limit as well", limit)
	settle(t, h, outcomes(queue.Done, got...)...)
	if got := claimAll(t, h, 1); !got[0].Limited {
		t.Errorf("job %d of a limited queue is not Limited", got[0].ID)
	}
	setRules(t, h, holdDead)
	enqueue(t, h, newJobs(3, nil)...)
	claimAll(t, h, 3)
}

func testHoldClaimTx(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	job := newJob()
	enqueue(t, h, job)
	claimer, _ := driver.As[driver.TxClaimer](h.Queue)
	tx := begin(t, h)
	got, err := claimer.ClaimTx(t.Context(), tx, queue.ClaimRequest{Queues: []string{"q"}})
	if err != nil || got == nil || got.ID != job.ID {
		t.Fatalf("ClaimTx of a queue whose rule has only OnDead: got %v, error %v; want job %d", got, err, job.ID)
	}
	commit(t, tx)
}

// testHoldLimited: a held job takes no place under a limit.
func testHoldLimited(t *testing.T, h Harness) {
	rule := holdDead
	rule.Running, rule.PerGroup = 1, 1
	setRules(t, h, rule)
	a, b := failing("a", 2), failing("b", 1)
	enqueue(t, h, append(a, b...)...)
	first := claimAll(t, h, 1)
	settle(t, h, outcomes(queue.Retry, first...)...)
	wantStatus(t, h, "in a limited queue", first[0].ID, queue.StatusHeld)
	second := claimAll(t, h, 1)
	if second[0].Group == first[0].Group {
		t.Fatalf("claimed job %d of group %s while its first job is held", second[0].ID, second[0].Group)
	}
	settle(t, h, outcomes(queue.Dead, second...)...)
	claimNone(t, h, "while both groups are blocked")
	cancelJobs(t, h, queue.Selection{Queue: "q", Status: queue.StatusHeld}, 2)
	wantNext(t, h, "after Cancel", a[1])
}

// testHoldLateCommit: a lower ID than that of the held job comes first, and does not free the
// group.
func testHoldLateCommit(t *testing.T, h Harness) {
	if h.OneWriter {
		return // the second enqueue waits for the first
	}
	setRules(t, h, holdDead)
	low, high := ordered("a"), failing("a", 2)
	tx := begin(t, h)
	enqueueIn(t, h, tx, low)
	enqueue(t, h, high...)
	settleNext(t, h, "while a lower ID is not committed", queue.Retry, high[0])
	commit(t, tx)
	settleNext(t, h, "of the lower ID", queue.Done, low)
	claimNone(t, h, "while the higher one is held")
}

func testHoldOnDead(t *testing.T, h Harness) {
	setRules(t, h, holdDead)
	jobs := failing("a", 2)
	jobs[1].Group = "b"
	enqueue(t, h, jobs...)
	dead := make(chan int64, 10)
	stop := startWorker(t, engine.Worker{
		Backend: h.Queue, Queues: []string{"q"}, Poll: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error {
			if job.Group == "b" {
				return queue.Discard(errors.New("boom"))
			}
			return errors.New("boom")
		}),
		OnDead: func(_ context.Context, job *queue.Job, _ error) { dead <- job.ID },
	})
	told := make(map[int64]int)
	for range jobs {
		select {
		case id := <-dead:
			told[id]++
		case <-time.After(patience):
			t.Fatalf("OnDead was called for %v, want it for each of %v", told, ids(jobs))
		}
	}
	stop()
	for _, j := range jobs {
		if told[j.ID] != 1 {
			t.Errorf("OnDead was called %d times for job %d, want once", told[j.ID], j.ID)
		}
		wantStatus(t, h, "after its OnDead", j.ID, queue.StatusHeld)
	}
}
