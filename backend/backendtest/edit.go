package backendtest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/errandhq/errand/queue"
	"github.com/errandhq/errand/queue/driver"
)

var editCases = []testCase{
	{"each field", hasEditor, testEditFields},
	{"what waits only", hasEditor, testEditOnlyWaiting},
	{"a held job", hasEditor | holds, testEditHeld},
	{"by filter", hasEditor, testEditFilter},
	{"a queue with its key", hasEditor, testEditKeyTaken},
	{"in a transaction", hasEditor | hasTx, testEditInTx},
	{"2,500 jobs", hasEditor, testEditMany},
	{"a bad change", hasEditor, testEditBad},
	{"wakes", hasEditor | hasWakeUps, testEditWakes},
	{"redrive in a transaction", hasEditor | hasTx, testRedriveInTx},
	{"redrive what was cancelled", hasEditor | hasCanceller, testRedriveCancelled},
	{"cancel a held job", hasCanceller | holds, testCancelHeld},
}

// neighbour returns the name of a second queue, to which jobs of the queue "q" can move. There are
// no jobs yet.
func neighbour(t *testing.T, h Harness) string {
	t.Helper()
	if !h.Partitioned {
		return "p"
	}
	editor, _ := driver.As[driver.Editor](h.Queue)
	for i := range 10_000 {
		name := fmt.Sprint("p", i)
		_, err := editor.Edit(t.Context(), nil, queue.Selection{Queue: "q"}, queue.JobChange{Queue: name})
		if err == nil {
			return name
		}
		wantInvalid(t, "Edit to a queue of another partition", err, "Queue")
	}
	t.Fatal("no queue is in the partition of another one")
	return ""
}

// edit edits and checks how many jobs were changed.
func edit(t *testing.T, h Harness, db queue.DB, which queue.Selection, c queue.JobChange, want int) {
	t.Helper()
	editor, _ := driver.As[driver.Editor](h.Queue)
	n, err := editor.Edit(t.Context(), db, which, c)
	if err != nil || n != want {
		t.Fatalf("Edit(%+v, %+v): got %d, error %v; want %d", which, c, n, err, want)
	}
}

func testEditFields(t *testing.T, h Harness) {
	to := neighbour(t, h)
	j := newJob()
	j.Delay = time.Hour
	j.Headers = map[string]string{"a": "b"}
	enqueue(t, h, j)
	edit(t, h, nil, byID(j), queue.JobChange{RunNow: true}, 1)
	edit(t, h, nil, byID(j), queue.JobChange{Delay: time.Hour}, 1)
	claimNone(t, h, "after a Delay")
	at := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	edit(t, h, nil, byID(j), queue.JobChange{ScheduledAt: at}, 1)
	priority := int32(-7)
	edit(t, h, nil, byID(j), queue.JobChange{Priority: &priority}, 1)
	edit(t, h, nil, byID(j), queue.JobChange{Payload: json.RawMessage(`{"n": 2}`)}, 1)
	edit(t, h, nil, byID(j), queue.JobChange{MaxAttempts: 9}, 1)
	edit(t, h, nil, byID(j), queue.JobChange{Queue: to}, 1)
	claimNone(t, h, "in the queue before")
	req := request(2)
	req.Queues = []string{to}
	got := claim(t, h, req)
	wantIDs(t, "claim after edits", got, []*queue.Job{j})
	e := got[0]
	if !e.ScheduledAt.Equal(at) || e.Priority != -7 || e.MaxAttempts != 9 || e.Queue != to || e.Kind != j.Kind || e.Headers["a"] != "b" {
		t.Errorf("job after edits: got %+v, want it due at %v, with priority -7, 9 attempts and its header", e, at)
	}
	wantJSON(t, "payload after an edit", e.Payload, `{"n": 2}`)
	edit(t, h, nil, byID(j), queue.JobChange{Priority: new(int32)}, 0)
}

// testEditOnlyWaiting: jobs that run and jobs that have ended are left alone.
func testEditOnlyWaiting(t *testing.T, h Harness) {
	to := neighbour(t, h)
	jobs := newJobs(4, nil)
	enqueue(t, h, jobs...)
	held := claim(t, h, request(3))
	settle(t, h, queue.Outcome{Job: held[0]}, queue.Outcome{Job: held[1], Action: queue.Dead})
	var before []queue.Record
	for _, j := range jobs[:3] {
		r, _ := lookUp(t, h, j.ID)
		before = append(before, r)
	}
	edit(t, h, nil, byID(jobs...), queue.JobChange{MaxAttempts: 3, Queue: to}, 1)
	edit(t, h, nil, queue.Selection{Queue: "q"}, queue.JobChange{RunNow: true}, 0)
	for _, r := range before {
		wantUnchanged(t, h, "Edit", r)
	}
	wantHeld(t, h, "after Edit", held[2])
}

// hold makes a pending job held.
func hold(t *testing.T, h Harness, j *queue.Job) {
	t.Helper()
	if err := h.Hold(t.Context(), j.ID); err != nil {
		t.Fatalf("Hold: %v", err)
	}
	wantStatus(t, h, "after Hold", j.ID, queue.StatusHeld)
}

func testEditHeld(t *testing.T, h Harness) {
	j := keyed("a")
	enqueue(t, h, j)
	hold(t, h, j)
	claimNone(t, h, "of a held job")
	again := keyed("a")
	enqueue(t, h, again)
	wantDuplicate(t, "that a held job holds", again, j)
	edit(t, h, nil, queue.Selection{Queue: "q", Status: queue.StatusPending}, queue.JobChange{MaxAttempts: 8}, 0)
	edit(t, h, nil, queue.Selection{Queue: "q", Status: queue.StatusHeld}, queue.JobChange{MaxAttempts: 7, ScheduledAt: time.Now()}, 1)
	wantStatus(t, h, "after an Edit without RunNow", j.ID, queue.StatusHeld)
	edit(t, h, nil, byID(j), queue.JobChange{RunNow: true}, 1)
	if got := claimOne(t, h); got.MaxAttempts != 7 {
		t.Errorf("attempts of a held job after Edit: got %d, want 7", got.MaxAttempts)
	}
}

func testCancelHeld(t *testing.T, h Harness) {
	j := keyed("a")
	enqueue(t, h, j)
	hold(t, h, j)
	cancelJobs(t, h, queue.Selection{Queue: "q", Status: queue.StatusPending}, 0)
	cancelJobs(t, h, queue.Selection{Queue: "q"}, 1)
	wantStatus(t, h, "that was held, after Cancel", j.ID, queue.StatusCancelled)
	again := keyed("a")
	if enqueue(t, h, again); again.Duplicate {
		t.Error("the key of a cancelled job is not free")
	}
}

func testEditFilter(t *testing.T, h Harness) {
	p := neighbour(t, h)
	jobs := newJobs(6, func(i int, j *queue.Job) {
		j.Delay = time.Hour
		j.Queue, j.Kind, j.Group = []string{"q", p}[i%2], []string{"k", "l", "m"}[i%3], []string{"g", "h"}[i/3]
	})
	jobs[5].Key = "a"
	enqueue(t, h, jobs...)
	now := queue.JobChange{RunNow: true}
	edit(t, h, nil, queue.Selection{Queue: "q", Kind: "m"}, now, 1) // 2
	wantIDs(t, "claim after Edit", claimAll(t, h, 1), jobs[2:3])
	edit(t, h, nil, queue.Selection{Queue: "q", Group: "g"}, now, 1) // 0
	wantIDs(t, "claim after Edit", claimAll(t, h, 1), jobs[:1])
	byKey := queue.Selection{Key: "a"}
	if h.Partitioned {
		byKey.Queue = p
	}
	edit(t, h, nil, byKey, queue.JobChange{RunNow: true, Queue: "q"}, 1) // 5
	wantIDs(t, "claim after Edit", claimAll(t, h, 1), jobs[5:])
	edit(t, h, nil, queue.Selection{Queue: "q", Status: queue.StatusPending}, now, 1)
	edit(t, h, nil, queue.Selection{Queue: p, Status: queue.StatusPending}, now, 2)
}

// testEditKeyTaken: a job does not move to a queue in which a live job has its key, and leaves its
// own queue with its key.
func testEditKeyTaken(t *testing.T, h Harness) {
	p := neighbour(t, h)
	taken, mover, free := keyed("a"), keyed("a"), keyed("b")
	mover.Queue, free.Queue = p, p
	enqueue(t, h, taken, mover, free)
	edit(t, h, nil, queue.Selection{Queue: p}, queue.JobChange{Queue: "q"}, 1)
	wantInOrder(t, h, "claim after Edit", claimAll(t, h, 2), []*queue.Job{taken, free})
	edit(t, h, nil, byID(mover), queue.JobChange{Queue: p, MaxAttempts: 2}, 1) // its own queue
	next := keyed("b")
	next.Queue = p
	if enqueue(t, h, next); next.Duplicate {
		t.Error("the key of a job that has moved is not free in its former queue")
	}
	other := keyed("b")
	enqueue(t, h, other)
	wantDuplicate(t, "that a moved job holds", other, free)
}

func testEditInTx(t *testing.T, h Harness) {
	j := newJob()
	j.Delay = time.Hour
	enqueue(t, h, j)
	tx := begin(t, h)
	edit(t, h, tx, byID(j), queue.JobChange{RunNow: true}, 1)
	wantNoneBeside(t, h, "beside an open Edit")
	rollback(t, tx)
	claimNone(t, h, "after a rollback")
	tx = begin(t, h)
	edit(t, h, tx, queue.Selection{Queue: "q"}, queue.JobChange{RunNow: true}, 1)
	commit(t, tx)
	claimOne(t, h)
}

func testRedriveInTx(t *testing.T, h Harness) {
	j := newJob()
	kill(t, h, j)
	editor, _ := driver.As[driver.Editor](h.Queue)
	for _, end := range []func(*testing.T, Tx){rollback, commit} {
		tx := begin(t, h)
		if n, err := editor.Redrive(t.Context(), tx, queue.Selection{Queue: "q"}); n != 1 || err != nil {
			t.Fatalf("Redrive in a transaction: got %d, error %v; want 1", n, err)
		}
		claimNoneOf(t, h, tx)
		end(t, tx)
	}
	claimOne(t, h)
}

func claimNoneOf(t *testing.T, h Harness, tx Tx) {
	t.Helper()
	wantNoneBeside(t, h, fmt.Sprintf("beside an open Redrive (%T)", tx))
}

func testRedriveCancelled(t *testing.T, h Harness) {
	jobs := newJobs(2, nil)
	enqueue(t, h, jobs...)
	claim(t, h, request(1))
	held := jobs[1:]
	cancelJobs(t, h, byID(held...), 1)
	redrive(t, h, queue.Selection{Queue: "q"}, 0)
	redrive(t, h, byID(held...), 0)
	redrive(t, h, queue.Selection{Queue: "q", Status: queue.StatusCancelled}, 1)
	again := claimOne(t, h)
	wantIDs(t, "claim after Redrive", []*queue.Job{again}, held)
	wantAsked(t, h, "after Redrive", []*queue.Job{again}, nil)
}

func testEditMany(t *testing.T, h Harness) {
	jobs := newJobs(2500, func(i int, j *queue.Job) { j.Delay = time.Hour })
	enqueue(t, h, jobs...)
	edit(t, h, nil, queue.Selection{Kind: "k"}, queue.JobChange{RunNow: true}, len(jobs))
	wantSameIDs(t, "claim after Edit of all", claimAll(t, h, len(jobs)), jobs)
}

func testEditBad(t *testing.T, h Harness) {
	editor, _ := driver.As[driver.Editor](h.Queue)
	j := newJob()
	enqueue(t, h, j)
	for field, c := range map[string]queue.JobChange{
		"JobChange":   {},
		"RunNow":      {RunNow: true, Delay: time.Second},
		"Delay":       {Delay: -1},
		"ScheduledAt": {ScheduledAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"Payload":     {Payload: json.RawMessage(`{"a"`)},
		"Queue":       {Queue: "ä"},
		"MaxAttempts": {MaxAttempts: -1},
	} {
		_, err := editor.Edit(t.Context(), nil, byID(j), c)
		wantInvalid(t, fmt.Sprintf("Edit with %+v", c), err, field)
	}
	_, err := editor.Edit(t.Context(), nil, byID(j), queue.JobChange{Payload: longPayload})
	wantInvalid(t, "Edit with a long payload", err, "Payload")
	for _, which := range []queue.Selection{{}, {Status: queue.StatusPending}} {
		_, err := editor.Edit(t.Context(), nil, which, queue.JobChange{RunNow: true})
		wantInvalid(t, fmt.Sprintf("Edit of %+v", which), err, "Selection")
	}
	_, err = editor.Edit(t.Context(), nil, queue.Selection{Queue: "q", Status: queue.StatusRunning}, queue.JobChange{RunNow: true})
	wantInvalid(t, "Edit of what runs", err, "Selection.Status")
	_, err = editor.Edit(cancelled(t), nil, byID(j), queue.JobChange{Queue: "p"})
	wantCanceled(t, "Edit", err)
	claimOne(t, h)
}

func testEditWakes(t *testing.T, h Harness) {
	j := newJob()
	one := func() {
		enqueueLater(t, h, j)
		edit(t, h, nil, byID(j), queue.JobChange{RunNow: true}, 1)
		claimOne(t, h)
	}
	d := listens(t, h, "w", []string{"q"}, one)
	enqueueLater(t, h, j)
	wantPrompt(t, h, d, "Edit", func() { edit(t, h, nil, byID(j), queue.JobChange{RunNow: true}, 1) })
}

// enqueueLater enqueues j as a new job that is due in an hour.
func enqueueLater(t *testing.T, h Harness, j *queue.Job) {
	t.Helper()
	*j = *newJob()
	j.Delay = time.Hour
	enqueue(t, h, j)
}
