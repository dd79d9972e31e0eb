package backendtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
)

var orderCases = []testCase{
	{"one job of a group at a time, in the order of IDs", anything, testOrder},
	{"fields of ordered jobs come back", anything, testOrderFields},
	{"after the other jobs of the queue", anything, testOrderBesideOthers},
	{"queues do not share groups", anything, testOrderQueues},
	{"groups take turns", anything, testOrderTurns},
	{"a retry blocks its group only", anything, testOrderRetry},
	{"a released or snoozed job stays first", anything, testOrderRelease},
	{"a kind that nobody handles blocks its group only", anything, testOrderKinds},
	{"a scheduled job blocks its group only", anything, testOrderScheduled},
	{"a crash of the first job's holder", anything, testOrderCrash},
	{"a dead job lets the next one pass", anything, testOrderDead},
	{"a late commit of a lower ID", hasTx, testOrderLateCommit},
	{"rollback of an enqueue", hasTx, testOrderRollback},
	{"a job that a transaction settles", hasTx, testOrderSettledInTx},
	{"a redrive while a later job runs", hasRedriver, testOrderRedrive},
	{"a claim in a transaction passes over them", hasTxClaimer, testOrderClaimTx},
	{"keys", anything, testOrderKeys},
	{"an edit of the first job", hasEditor, testOrderEdit},
	{"the first job is cancelled", hasCanceller, testOrderCancel},
	{"in a limited queue", hasRuler, testOrderLimited},
	{"1,500 groups in one claim", anything, testOrderManyGroups},
	{"8 claimers, 1,000 groups", anything, testOrderClaimers},
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

// testOrderTurns: no group waits while others have one turn after the other. Each process of a
// database may count the turns for itself, and h may be four.
func testOrderTurns(t *testing.T, h Harness) {
	const groups, turns, processes = 5, 8, 4
	for i := range groups {
		enqueue(t, h, line(fmt.Sprint("g", i), groups*turns)...)
	}
	had := make(map[string]int)
	for range groups * turns {
		got := claim(t, h, request(1))
		if len(got) != 1 {
			t.Fatalf("claim with limit 1: got %v", ids(got))
		}
		had[got[0].Group]++
		settle(t, h, queue.Outcome{Job: got[0]})
	}
	for group, n := range had {
		if n < turns-processes || n > turns+processes || len(had) < groups {
			t.Errorf("of %d claims, group %s had %d, want about %d; all: %v", groups*turns, group, n, turns, had)
		}
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
	c[0].Delay = 150 * time.Millisecond
	enqueue(t, h, append(append(a, b...), c...)...)
	wantIDs(t, "claim while two groups wait for their first jobs", claim(t, h, request(10)), b)
	wantIDs(t, "claim when one is due", claimSoon(t, h, request(10), 1), c[:1])
	claimNone(t, h, "while the other waits")
}

func testOrderCrash(t *testing.T, h Harness) {
	a := line("a", 2)
	enqueue(t, h, a...)
	wantIDs(t, "claim that crashes", claim(t, h, short(request(10))), a[:1])
	claimNone(t, h, "before the lease has expired")
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
	redrive(t, h, queue.Which{IDs: []int64{a[0].ID}}, 1)
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
	claimer, _ := queue.As[queue.TxClaimer](h.Queue)
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
	a, other := line("a", 3), newJob()
	enqueue(t, h, a...)
	urgent := int32(-9)
	edit(t, h, nil, queue.Which{Group: "a"}, queue.Change{Priority: &urgent}, 3)
	enqueue(t, h, other)
	wantIDs(t, "claim after an edit of the priority", claim(t, h, request(5)), []*queue.Job{other, a[0]})
	edit(t, h, nil, byID(a[1]), queue.Change{Queue: "p"}, 1)
	req := request(5)
	req.Queues = []string{"p"}
	wantIDs(t, "claim of the queue that a job has moved to", claim(t, h, req), a[1:2])
	claimNone(t, h, "of the third job while the first one runs")
}

func testOrderCancel(t *testing.T, h Harness) {
	a := line("a", 2)
	a[0].Delay = time.Hour
	enqueue(t, h, a...)
	claimNone(t, h, "while the first job is scheduled")
	canceller, _ := queue.As[queue.Canceller](h.Queue)
	if n, err := canceller.Cancel(t.Context(), nil, byID(a[0])); n != 1 || err != nil {
		t.Fatalf("Cancel: got %d, error %v; want 1", n, err)
	}
	wantNext(t, h, "when it is cancelled", a[1])
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
	ruler, _ := queue.As[queue.Ruler](h.Queue)
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

// testOrderManyGroups: a claim finds all that is due, however many groups are blocked.
func testOrderManyGroups(t *testing.T, h Harness) {
	const groups = 1500
	jobs := newJobs(2*groups, func(i int, j *queue.Job) { j.Group, j.Ordered = fmt.Sprint("g", i%groups), true })
	enqueue(t, h, jobs...)
	wantSameIDs(t, "claim of all groups", claim(t, h, request(2*groups)), jobs[:groups])
	last := ordered("h")
	enqueue(t, h, last)
	wantIDs(t, "claim behind 1,500 groups that run", claimSoon(t, h, request(1), 1), []*queue.Job{last})
}

// lines checks what claimers do with ordered jobs: each must be the first of its group that has not
// ended, and no other of the group may run.
type lines struct {
	mu      sync.Mutex
	left    map[string][]int64 // IDs that have not ended, in order
	running map[string]int64
}

func newLines(jobs []*queue.Job) *lines {
	l := &lines{left: make(map[string][]int64), running: make(map[string]int64)}
	for _, j := range jobs {
		l.left[j.Group] = append(l.left[j.Group], j.ID)
	}
	return l
}

func (l *lines) start(t *testing.T, j *queue.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.running[j.Group]; other != 0 {
		t.Errorf("overlap: job %d of group %s started while job %d runs", j.ID, j.Group, other)
	}
	if left := l.left[j.Group]; len(left) == 0 || left[0] != j.ID {
		t.Errorf("inversion: job %d of group %s started while %v have not ended", j.ID, j.Group, left)
	}
	l.running[j.Group] = j.ID
}

// stop notes that a run is over before it is settled: afterwards the next may start at once.
func (l *lines) stop(j *queue.Job, hasEnded bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, j.Group)
	if hasEnded && len(l.left[j.Group]) > 0 {
		l.left[j.Group] = l.left[j.Group][1:]
	}
}

func testOrderClaimers(t *testing.T, h Harness) {
	const groups, each, claimers = 1000, 6, 8
	jobs := newJobs(groups*each, func(i int, j *queue.Job) { j.Group, j.Ordered = fmt.Sprint("g", i%groups), true })
	enqueue(t, h, jobs...)
	l := newLines(jobs)
	var (
		ended atomic.Int64
		wg    sync.WaitGroup
		end   = time.Now().Add(2 * patience)
	)
	for i := range claimers {
		wg.Go(func() {
			req := request(1 + rand.Intn(150))
			req.Worker = fmt.Sprint("w", i)
			for ended.Load() < int64(len(jobs)) && time.Now().Before(end) {
				claimed, err := h.Queue.Claim(t.Context(), req)
				if err != nil {
					t.Errorf("Claim by %s: %v", req.Worker, err)
					return
				}
				batch := outcomes(queue.Done, claimed...)
				for i, j := range claimed {
					l.start(t, j)
					batch[i].Action = []queue.Action{queue.Done, queue.Dead, queue.Release, queue.Retry}[max(0, rand.Intn(8)-4)]
				}
				for _, o := range batch {
					hasEnded := o.Action == queue.Done || o.Action == queue.Dead || o.Action == queue.Retry && o.Job.Attempt == o.Job.MaxAttempts
					l.stop(o.Job, hasEnded)
					if hasEnded {
						ended.Add(1)
					}
				}
				if lost, err := h.Queue.Settle(t.Context(), nil, batch...); err != nil || len(lost) != 0 {
					t.Errorf("Settle by %s: lost %v, error %v; want neither", req.Worker, ids(lost), err)
				}
			}
		})
	}
	wg.Wait()
	if n := ended.Load(); n != int64(len(jobs)) {
		t.Errorf("%d claimers ended %d jobs, want %d", claimers, n, len(jobs))
	}
}

// testOrderWorker: a worker that has settled a job claims the next of its group.
func testOrderWorker(t *testing.T, h Harness) {
	jobs := append(line("a", 20), line("b", 20)...)
	done := make(chan int64, len(jobs))
	enqueue(t, h, jobs...)
	stop := startWorker(t, queue.Worker{
		Backend: h.Queue, Queues: []string{"q"}, Poll: patience, Lease: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Handler: queue.HandlerFunc(func(_ context.Context, job *queue.Job) error { done <- job.ID; return nil }),
	})
	defer stop()
	deadline := time.After(patience / 2)
	for i := range jobs {
		select {
		case <-done:
		case <-deadline:
			t.Fatalf("%d of %d jobs ran within %v, by a worker that polls each %v", i, len(jobs), patience/2, patience)
		}
	}
}
