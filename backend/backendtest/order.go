package backendtest

import (
	"errors"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var orderCases = []testCase{
	{"one job of a group at a time, in the order of IDs", anything, testOrder},
	{"fields of ordered jobs come back", isInOrder, testOrderFields},
	{"after the other jobs of the queue", isInOrder, testOrderBesideOthers},
	{"queues do not share groups", anything, testOrderQueues},
	{"groups take turns", isInOrder, testOrderTurns},
	{"a retry blocks its group only", anything, testOrderRetry},
	{"a released or snoozed job stays first", anything, testOrderRelease},
	{"a kind that nobody handles blocks its group only", anything, testOrderKinds},
	{"a scheduled job blocks its group only", anything, testOrderScheduled},
	{"a crash of the first job's holder", anything, testOrderCrash},
	{"a dead job lets the next one pass", anything, testOrderDead},
	{"a late commit of a lower ID", hasTx, testOrderLateCommit},
	{"rollback of an enqueue", hasTx, testOrderRollback},
	{"a job that a transaction settles", hasTx, testOrderSettledInTx},
	{"a redrive while a later job runs", hasEditor, testOrderRedrive},
	{"a claim in a transaction passes over them", hasTxClaimer, testOrderClaimTx},
	{"keys", isInOrder, testOrderKeys},
	{"an edit of the first job", hasEditor, testOrderEdit},
	{"the first job is cancelled", hasCanceller, testOrderCancel},
	{"in a limited queue", hasRuler | isInOrder, testOrderLimited},
	{"1,500 groups in one claim", anything, testOrderManyGroups},
	{"8 claimers, 1,000 groups", isFull, testOrderClaimers},
	{"a worker runs a group without waiting for its poll", anything, testOrderWorker},
}

// ordered returns an ordered job of the group.
func ordered(group string) *queue.Job {
	j := newJob()
	j.Group, j.Ordered = group, true
	return j
}

// line returns n ordered jobs of the group.
func line(group string, n int) []*queue.Job {
	return newJobs(n, func(_ int, j *queue.Job) { j.Group, j.Ordered = group, true })
}

// wantNext claims and checks that it gets the wanted jobs, in any order.
func wantNext(t *testing.T, h Harness, when string, want ...*queue.Job) []*queue.Job {
	t.Helper()
	got := claim(t, h, request(len(want)+5))
	wantSameIDs(t, "claim "+when, got, want)
	return got
}

func testOrder(t *testing.T, h Harness) {
	a, b, c := line("a", 3), line("b", 3), line("c", 1)
	for i := range a {
		enqueue(t, h, b[i], a[i])
	}
	enqueue(t, h, c...)
	held := wantNext(t, h, "of three groups", a[0], b[0], c[0])
	claimNone(t, h, "while a job of each group runs")
	settle(t, h, queue.Outcome{Job: find(held, b[0])}, queue.Outcome{Job: find(held, c[0])})
	again := wantNext(t, h, "when the first of b has ended", b[1])
	settle(t, h, queue.Outcome{Job: find(held, a[0])}, queue.Outcome{Job: again[0]})
	held = wantNext(t, h, "when both have ended", a[1], b[2])
	settle(t, h, outcomes(queue.Done, held...)...)
	settle(t, h, outcomes(queue.Done, wantNext(t, h, "of the last", a[2])...)...)
	claimNone(t, h, "when all have ended")
}

// find returns the claimed job with the ID of job.
func find(claimed []*queue.Job, job *queue.Job) *queue.Job {
	for _, j := range claimed {
		if j.ID == job.ID {
			return j
		}
	}
	return nil
}

func testOrderFields(t *testing.T, h Harness) {
	one, keyedOne, many := ordered("alone"), ordered("keyed"), line("of many", 1)
	keyedOne.Key = "key"
	many = append(many, newJob())
	enqueue(t, h, one)
	enqueue(t, h, keyedOne)
	enqueue(t, h, many...)
	for _, j := range claimAll(t, h, 4) {
		want := j.ID != many[1].ID
		if j.Ordered != want || (j.Group != "") != want || j.Priority != 0 {
			t.Errorf("claimed job %d: got Ordered %v, Group %q, Priority %d; want Ordered %v, Priority 0", j.ID, j.Ordered, j.Group, j.Priority, want)
		}
		if rec, ok := lookUp(t, h, j.ID); ok && (rec.Ordered != want || rec.Group != j.Group || rec.Priority != 0) {
			t.Errorf("record of job %d: got Ordered %v, Group %q, Priority %d; want as claimed", j.ID, rec.Ordered, rec.Group, rec.Priority)
		}
	}
}

func testOrderBesideOthers(t *testing.T, h Harness) {
	first, late := newJob(), newJob()
	first.Group, late.Priority = "a", 2_000_000_000
	a, b := line("a", 2), line("b", 2)
	enqueue(t, h, a...)
	enqueue(t, h, b...)
	enqueue(t, h, late, first)
	wantIDs(t, "claim with limit 1", claim(t, h, request(1)), []*queue.Job{first})
	got := claim(t, h, request(2))
	if len(got) != 2 || got[0].ID != late.ID || !got[1].Ordered {
		t.Fatalf("claim with limit 2: got %v, want job %d and an ordered one", ids(got), late.ID)
	}
	other := a[0]
	if got[1].ID == a[0].ID {
		other = b[0]
	}
	wantNext(t, h, "of what is left", other)
}

func testOrderQueues(t *testing.T, h Harness) {
	q, p := line("a", 2), line("a", 2)
	p[0].Queue, p[1].Queue = "p", "p"
	enqueue(t, h, append(q, p...)...)
	req := request(10)
	req.Queues = []string{"p", "q", "p"}
	wantIDs(t, "claim of two queues", claim(t, h, req), []*queue.Job{p[0], q[0]})
	if got := claim(t, h, req); len(got) != 0 {
		t.Fatalf("claim while both run: got %v, want none", ids(got))
	}
}

func testOrderRetry(t *testing.T, h Harness) {
	a, b := line("a", 2), line("b", 2)
	enqueue(t, h, append(a, b...)...)
	held := wantNext(t, h, "of two groups", a[0], b[0])
	settle(t, h,
		queue.Outcome{Job: find(held, a[0]), Action: queue.Retry, Delay: time.Hour, Err: errors.New("boom")},
		queue.Outcome{Job: find(held, b[0])})
	held = wantNext(t, h, "while a job waits for its retry", b[1])
	settle(t, h, outcomes(queue.Retry, held...)...)
	if again := wantNext(t, h, "after a retry at once", b[1]); again[0].Attempt != 2 {
		t.Errorf("claimed again: got attempt %d, want 2", again[0].Attempt)
	}
}

func testOrderRelease(t *testing.T, h Harness) {
	a := line("a", 2)
	enqueue(t, h, a...)
	settle(t, h, outcomes(queue.Release, wantNext(t, h, "of a group", a[0])...)...)
	held := wantNext(t, h, "after a release", a[0])
	settle(t, h, queue.Outcome{Job: held[0], Action: queue.Release, Delay: time.Hour})
	claimNone(t, h, "while the first job snoozes")
}

func testOrderKinds(t *testing.T, h Harness) {
	a, b := line("a", 2), line("b", 2)
	a[0].Kind, b[1].Kind = "unknown", "unknown"
	enqueue(t, h, append(a, b...)...)
	req := request(10)
	req.Kinds = []string{"k"}
	got := claim(t, h, req)
	wantIDs(t, "claim of a kind", got, b[:1])
	settle(t, h, queue.Outcome{Job: got[0]})
	if got := claim(t, h, req); len(got) != 0 {
		t.Fatalf("claim when both groups have an unknown kind first: got %v, want none", ids(got))
	}
	req.Kinds = append(req.Kinds, "unknown")
	wantSameIDs(t, "claim of both kinds", claim(t, h, req), []*queue.Job{a[0], b[1]})
}

func testOrderScheduled(t *testing.T, h Harness) {
	a, b, c := line("a", 2), line("b", 1), line("c", 2)
	a[0].Delay = time.Hour
	c[0].Delay = 2 * time.Second // also a slow machine claims before that
	enqueue(t, h, append(append(a, b...), c...)...)
	wantIDs(t, "claim while two groups wait for their first jobs", claim(t, h, request(10)), b)
	wantIDs(t, "claim when one is due", claimSoon(t, h, request(10), 1), c[:1])
	claimNone(t, h, "while the other waits")
}

func testOrderCrash(t *testing.T, h Harness) {
	a := line("a", 2)
	enqueue(t, h, a...)
	crashed := claim(t, h, request(10))
	wantIDs(t, "claim that crashes", crashed, a[:1])
	claimNone(t, h, "before the lease has expired")
	if lost, _, err := h.Queue.Extend(t.Context(), shortLease, crashed...); err != nil || len(lost) != 0 {
		t.Fatalf("Extend, after which the holder crashes: lost %v, error %v; want neither", ids(lost), err)
	}
	awaitReclaim(t, h, 1)
	again := claimSoon(t, h, request(10), 1)
	wantIDs(t, "claim after the reclaim", again, a[:1])
	settle(t, h, queue.Outcome{Job: again[0]})
	wantNext(t, h, "when it has ended", a[1])
}

func testOrderDead(t *testing.T, h Harness) {
	a := line("a", 4)
	a[1].MaxAttempts, a[2].MaxAttempts = 1, 1
	enqueue(t, h, a...)
	settle(t, h, outcomes(queue.Dead, wantNext(t, h, "of a group", a[0])...)...)
	settle(t, h, outcomes(queue.Retry, wantNext(t, h, "after a dead job", a[1])...)...)
	wantIDs(t, "claim that crashes", claim(t, h, short(request(10))), a[2:3])
	awaitReclaim(t, h, 1)
	wantIDs(t, "claim after a crash in the last attempt", claimSoon(t, h, request(10), 1), a[3:])
}

func testOrderKeys(t *testing.T, h Harness) {
	first, second, same := ordered("a"), ordered("a"), ordered("b")
	first.Key, second.Key, same.Key = "x", "y", "x"
	enqueue(t, h, first, second, same)
	wantDuplicate(t, "in another group", same, first)
	settle(t, h, queue.Outcome{Job: wantNext(t, h, "of a group with keys", first)[0]})
	wantNext(t, h, "after it", second)
}

func testOrderLimited(t *testing.T, h Harness) {
	ruler, _ := driver.As[driver.Ruler](h.Queue)
	if err := ruler.SetRules(t.Context(), nil, queue.Rule{Queue: "q", Running: 3}, queue.Rule{Queue: "q", Group: "e", Paused: true}); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"a", "b", "c", "d", "e"} {
		enqueue(t, h, line(group, 2)...)
	}
	var ended []*queue.Job
	for _, runs := range []int{3, 3, 2} { // 8 jobs of 4 groups
		held := claimAll(t, h, runs)
		for i, j := range held {
			if j.Group == "e" || i > 0 && j.Group == held[i-1].Group || i > 1 && j.Group == held[0].Group {
				t.Errorf("claimed jobs %v of a limited queue: two of one group, or of a paused one", ids(held))
			}
		}
		if runs == 3 {
			claimNone(t, h, "while three jobs run")
		}
		settle(t, h, outcomes(queue.Done, held...)...)
		ended = append(ended, held...)
	}
	for i, j := range ended {
		for _, before := range ended[:i] {
			if j.Group == before.Group && j.ID < before.ID {
				t.Errorf("job %d of group %s ran after job %d", j.ID, j.Group, before.ID)
			}
		}
	}
	claimNone(t, h, "when only a paused group is left")
}
